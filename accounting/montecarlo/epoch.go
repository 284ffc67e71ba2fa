package montecarlo

import (
	"fmt"

	"minsep/accounting/montecarlo/internal/kernel"
	"minsep/accounting/montecarlo/internal/law"
	"minsep/internal/param"
)

// EpochMinSep lets each example take part exactly once in every epoch of EpochSteps steps.
const EpochMinSep = "epoch-min-sep"

func init() { schemes[EpochMinSep] = epochMinSep{} }

// epochMinSep has exact losses for a strategy of at most min-sep bands (F3.8).
type epochMinSep struct{}

func (epochMinSep) check(s Spec, c *param.Checker) {
	c.Require(s.Prob == 0, "probability", s.Prob, "must be 0 for epoch-min-sep: an example takes part once an epoch")
	c.Require(s.EpochSteps >= max(1, s.MinSep), "epoch steps", s.EpochSteps, fmt.Sprintf("must be at least min-sep, %d", s.MinSep))
	checkOneExample(s, c)
}

func (epochMinSep) separated(s Spec) string { return s.Scheme }

func (epochMinSep) exactness(Spec, int) Exactness { return Exact }

func (epochMinSep) law(s Spec, _ Direction, c *law.Columns) law.Law {
	norms, _ := s.norms(c)
	return law.EpochMinSep(s.epochs(), norms)
}

func (s Spec) epochs() law.Epochs {
	return law.Epochs{Steps: s.Steps, MinSep: s.MinSep, Epoch: s.EpochSteps}
}

func (epochMinSep) draw(p participations, dst []kernel.Hit, d *draws) []kernel.Hit {
	return p.epochs(dst, d)
}

// epochs appends the participations of one example (F3.8): the first place is uniform, the next one depends on the last alone.
func (p participations) epochs(dst []kernel.Hit, d *draws) []kernel.Hit {
	b, length := p.spec.MinSep, p.spec.EpochSteps
	place := d.below(length)
	for epoch := 0; epoch+place < p.spec.Steps; epoch += length {
		dst = append(dst, kernel.Hit{Step: epoch + place, Times: 1})
		free := max(0, place+b-length)
		place = free + d.failures(p.logQ, b-1-free)
		if place == b-1 {
			place += d.below(length - b + 1)
		}
	}
	return dst
}

package montecarlo

import (
	"cmp"
	"fmt"
	"math"
	"slices"

	"minsep/accounting/montecarlo/internal/kernel"
	"minsep/accounting/montecarlo/internal/law"
	"minsep/internal/param"
)

// EpochMinSep lets each example take part exactly once in every epoch of EpochSteps steps.
const EpochMinSep = "epoch-min-sep"

func init() { schemes[EpochMinSep] = epochMinSep{} }

// maxEpochExamples is the largest owner whose loss is known.
const maxEpochExamples = 2

// epochMinSep has exact losses for a strategy of at most min-sep bands, for one example (F3.8) and two (F4.7).
type epochMinSep struct{}

func (epochMinSep) check(s Spec, c *param.Checker) {
	c.Require(s.Prob == 0, "probability", s.Prob, "must be 0 for epoch-min-sep: an example takes part once an epoch")
	c.Require(s.EpochSteps >= max(1, s.MinSep), "epoch steps", s.EpochSteps, fmt.Sprintf("must be at least min-sep, %d", s.MinSep))
	k := s.examplesPerOwner()
	c.Require(k <= maxEpochExamples, "examples per owner", k, fmt.Sprintf("must be at most %d for %s: no loss is known for more", maxEpochExamples, s.Scheme))
	c.Require(k == 1 || s.MinSep*s.MinSep <= maxOwnerMemory, "min-sep", s.MinSep,
		fmt.Sprintf("must be at most %d for two examples per owner: the loss takes memory in its square", int(math.Sqrt(maxOwnerMemory))))
	checkUntruncated(s, c)
}

func (epochMinSep) separated(s Spec) string { return s.Scheme }

func (epochMinSep) exactness(Spec, int) Exactness { return Exact }

func (epochMinSep) law(s Spec, _ Direction, c *law.Columns) law.Law {
	norms, factor := s.norms(c)
	if s.examplesPerOwner() == 2 {
		return law.NewEpochPair(s.epochs(), c, factor)
	}
	return law.EpochMinSep(s.epochs(), norms)
}

func (s Spec) epochs() law.Epochs {
	return law.Epochs{Steps: s.Steps, MinSep: s.MinSep, Epoch: s.EpochSteps}
}

func (epochMinSep) draw(p participations, dst []kernel.Hit, d *draws) []kernel.Hit {
	for range p.spec.examplesPerOwner() {
		dst = p.epochs(dst, d)
	}
	if p.spec.examplesPerOwner() > 1 {
		slices.SortFunc(dst, func(a, b kernel.Hit) int { return cmp.Compare(a.Step, b.Step) })
	}
	return dst
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

package montecarlo

import (
	"fmt"

	"minsep/accounting/montecarlo/internal/kernel"
	"minsep/accounting/montecarlo/internal/likelihood"
	"minsep/internal/param"
)

// EpochMinSep lets each example take part exactly once in every epoch of EpochSteps steps.
const EpochMinSep = "epoch-min-sep"

func init() { schemes[EpochMinSep] = epochMinSep{} }

// epochMinSep has, for a strategy of at most min-sep bands, exact losses of one example (F3.8) and
// two (F4.7), and bounds for more (F4.3, F4.6).
type epochMinSep struct{}

func (epochMinSep) check(s Spec, c *param.Checker) {
	c.Require(s.Prob == 0, "probability", s.Prob, "must be 0 for epoch-min-sep: an example takes part once an epoch")
	c.Require(s.EpochSteps >= max(1, s.MinSep), "epoch steps", s.EpochSteps, fmt.Sprintf("must be at least min-sep, %d", s.MinSep))
	checkUntruncated(s, c)
}

func (epochMinSep) bands(s Spec) bandLimit { return s.atMostMinSep(s.Scheme) }

// exactness: the exact loss of two examples takes memory in the square of min-sep.
func (epochMinSep) exactness(s Spec, _ int) Exactness {
	if k := s.examplesPerOwner(); k > 2 || k == 2 && s.MinSep*s.MinSep > maxOwnerMemory {
		return Bound
	}
	return Exact
}

func (e epochMinSep) ratio(s Spec, d Direction, c *likelihood.Columns) likelihood.Ratio {
	norms, factor := s.norms(c)
	one := likelihood.EpochMinSep(s.epochs(), norms)
	switch k := s.examplesPerOwner(); {
	case k == 1:
		return one
	case e.exactness(s, c.Bands) == Exact:
		return likelihood.NewEpochPair(s.epochs(), c, factor)
	case d == P:
		return &likelihood.OwnerUpper{One: one, Examples: k}
	default:
		return likelihood.NewOwnerLower(likelihood.NewEpochPosterior(s.epochs(), norms), k, c, factor)
	}
}

func (s Spec) epochs() likelihood.Epochs {
	return likelihood.Epochs{Steps: s.Steps, MinSep: s.MinSep, Epoch: s.EpochSteps}
}

func (epochMinSep) draw(p participations, dst []kernel.Hit, d *draws) []kernel.Hit {
	return p.each(dst, func(dst []kernel.Hit) []kernel.Hit { return p.epochs(dst, d) })
}

// epochs appends the participations of one example (F3.8): the first place is uniform, the next one
// depends on the last alone.
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

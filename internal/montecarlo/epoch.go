package montecarlo

import (
	"fmt"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/law"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/param"
)

// EpochMinSep lets each example take part exactly once in every epoch of EpochSteps steps.
const EpochMinSep = "epoch-min-sep"

func init() { schemes[EpochMinSep] = epochMinSep{lawful{epochLaw}} }

// epochMinSep has losses by its law (F3.8), and exact ones of two examples (F4.7).
type epochMinSep struct{ lawful }

func epochLaw(s Spec) law.Law { return law.NewEpochs(s.Steps, s.MinSep, s.EpochSteps) }

func (epochMinSep) check(s Spec, c *param.Checker) {
	c.Require(s.Prob == 0, "probability", s.Prob, "must be 0 for epoch-min-sep: an example takes part once an epoch")
	c.Require(s.EpochSteps >= max(1, s.MinSep), "epoch steps", s.EpochSteps, fmt.Sprintf("must be at least min-sep, %d", s.MinSep))
	checkUntruncated(s, c)
}

// exactness: the exact loss of two examples takes memory in the square of min-sep.
func (e epochMinSep) exactness(s Spec, bands int) Exactness {
	if s.ExamplesPerOwner() == 2 && s.MinSep*s.MinSep <= maxOwnerMemory {
		return Exact
	}
	return e.lawful.exactness(s, bands)
}

func (e epochMinSep) ratio(s Spec, d Direction, c *likelihood.Columns) likelihood.Ratio {
	if s.ExamplesPerOwner() == 2 && e.exactness(s, c.Bands) == Exact {
		return likelihood.NewEpochPair(s.MinSep, s.EpochSteps, c, s.Factor())
	}
	return e.lawful.ratio(s, d, c)
}

// draw appends the participations of one example (F3.8): the first place is uniform, the next one
// depends on the last alone.
func (epochMinSep) draw(p participations, dst []kernel.Hit, d *draws) []kernel.Hit {
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

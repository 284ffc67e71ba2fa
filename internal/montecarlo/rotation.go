package montecarlo

import (
	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/param"
)

// Rotation lets an owner take part once in each period of EpochSteps steps, at a uniform step,
// through whichever of its examples is in the period's pool.
const Rotation = "rotation"

func init() { schemes[Rotation] = rotation{} }

// rotation has exact losses for strategies of at most EpochSteps bands (F3.12).
type rotation struct{}

func (rotation) check(s Spec, c *param.Checker) {
	c.Require(s.Prob == 0, "probability", s.Prob, "must be 0 for rotation: an owner takes part once a period")
	c.Require(s.MinSep == 1, "min-sep", s.MinSep, "must be 1 for rotation: participations in adjacent periods keep no distance")
	c.AtLeast("epoch steps", s.EpochSteps, 1)
	checkOneExample(s, c)
}

func (rotation) bands(s Spec) bandLimit { return bandLimit{s.EpochSteps, "epoch steps", s.Scheme} }

func (rotation) exactness(Spec, int) Exactness { return Exact }

func (rotation) ratio(s Spec, _ Direction, c *likelihood.Columns) likelihood.Ratio {
	return likelihood.NewRotation(likelihood.Periods{Steps: s.Steps, Period: s.EpochSteps}, c, s.Factor())
}

func (rotation) draw(p participations, dst []kernel.Hit, d *draws) []kernel.Hit {
	for first := 0; first < p.spec.Steps; first += p.spec.EpochSteps {
		if step := first + d.below(p.spec.EpochSteps); step < p.spec.Steps {
			dst = append(dst, kernel.Hit{Step: step, Times: 1})
		}
	}
	return dst
}

package montecarlo

import (
	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/param"
)

// BallsInBins throws each example into one step of a period, which is its min-sep.
const BallsInBins = "balls-in-bins"

func init() { schemes[BallsInBins] = ballsInBins{} }

// ballsInBins has exact losses for any strategy (F3.4).
type ballsInBins struct{}

func (ballsInBins) check(s Spec, c *param.Checker) {
	c.Require(s.Prob == 0, "probability", s.Prob, "must be 0 for balls-in-bins: an example participates once a period")
	checkOneExample(s, c)
}

func (ballsInBins) bands(Spec) bandLimit { return bandLimit{} }

func (ballsInBins) exactness(Spec, int) Exactness { return Exact }

func (ballsInBins) ratio(s Spec, _ Direction, c *likelihood.Columns) likelihood.Ratio {
	return likelihood.NewBallsInBins(c, s.MinSep, s.Factor())
}

func (ballsInBins) draw(p participations, dst []kernel.Hit, d *draws) []kernel.Hit {
	for i := d.below(p.spec.MinSep); i < p.spec.Steps; i += p.spec.MinSep {
		dst = append(dst, kernel.Hit{Step: i, Times: 1})
	}
	return dst
}

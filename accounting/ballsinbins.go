package accounting

import (
	"minsep/accounting/montecarlo"
	"minsep/sampling"
)

func init() {
	register(func(r Run, s sampling.BallsInBins) analysis { return ballsInBins{r, s} })
}

// ballsInBins is a mixture over the phases, for any strategy (F3.4).
type ballsInBins struct {
	run    Run
	scheme sampling.BallsInBins
}

func (a ballsInBins) method() (Method, error) {
	switch {
	case a.run.MaxExamplesPerOwner > 1:
		return a.run.refuse("it %s", exampleOnly)
	case a.run.Sampler.Truncation != nil:
		return a.run.refuse(noTruncation)
	case !a.run.Strategy.NonNegative():
		return a.run.refuse(negativeEntry)
	}
	return MonteCarlo, nil
}

func (a ballsInBins) loss(*montecarlo.Spec) {} // the period, its min-sep, says all

// participation: the phases are uniform and independent.
func (a ballsInBins) participation() participation {
	n, period := a.scheme.Steps, a.scheme.Period
	return participation{rates: []rate{{upward / float64(period), n}}, drawn: a.run.Examples, never: max(0, 1-float64(n)/float64(period)) / upward}
}

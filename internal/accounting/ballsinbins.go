package accounting

import (
	"minsep/mechanism"
	"minsep/sampling"
)

func init() {
	register(func(r Run, s sampling.BallsInBins) analysis { return ballsInBins{allocationEvents{r}, s} })
}

// ballsInBins is a mixture over the phases; it has an analysis for any strategy (F3.4).
type ballsInBins struct {
	allocationEvents
	scheme sampling.BallsInBins
}

func (a ballsInBins) method() (Method, error) {
	switch {
	case a.run.MaxExamplesPerOwner > 1:
		return a.run.refuseBy(oneExample)
	case a.run.Sampler.Truncation != nil:
		return a.run.refuseBy(noTruncation)
	case !a.run.Strategy.NonNegative():
		return a.run.refuseBy(negativeEntry)
	case a.run.allocated():
		return PLD, nil
	}
	return MonteCarlo, nil
}

func (a ballsInBins) sensitivity() (mechanism.Sensitivity, error) {
	return a.run.Strategy.Sensitivity(mechanism.Participation{MinSep: a.scheme.Period, Phases: true})
}

// participation: the phases are uniform and independent.
func (a ballsInBins) participation() participation {
	n, period := a.scheme.Steps, a.scheme.Period
	return participation{
		rates: []rate{{upward / float64(period), n}},
		drawn: a.run.Examples,
		never: max(0, 1-float64(n)/float64(period)) / upward,
	}
}

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

func (a ballsInBins) participation() participation {
	return a.run.uniform(a.scheme.Steps, a.scheme.Period)
}

package accounting

import (
	"minsep/internal/montecarlo"
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

// loss: the period, as min-sep, determines the scheme. In a run of at most b steps an example takes
// part at most once, at each step with probability 1/b. B-min-sep with min-sep n and p/(1+(n-1)p) =
// 1/b has the same law, and takes less time.
func (a ballsInBins) loss(spec *montecarlo.Spec) {
	if n, b := a.scheme.Steps, a.scheme.Period; b >= n {
		spec.Scheme, spec.MinSep, spec.Prob, spec.WarmStart = montecarlo.BMinSep, n, 1/float64(b-n+1), true
	}
}

func (a ballsInBins) sensitivity() (mechanism.Sensitivity, error) {
	return a.run.Strategy.Sensitivity(mechanism.Participation{MinSep: a.scheme.Period, Phases: true})
}

// participation: the phases are uniform and independent.
func (a ballsInBins) participation() participation {
	n, period := a.scheme.Steps, a.scheme.Period
	return participation{rates: []rate{{upward / float64(period), n}}, drawn: a.run.Examples, never: max(0, 1-float64(n)/float64(period)) / upward}
}

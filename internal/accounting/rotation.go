package accounting

import (
	"math"
	"slices"

	"minsep/mechanism"
	"minsep/sampling"
)

func init() {
	register(func(r Run, s sampling.Rotation) analysis { return rotation{allocationEvents{r}, s} })
}

// rotation is participation of an owner once in each period, through any of its examples (F3.12).
// With independent noise of one size it is composed of periods; otherwise its loss is sampled.
type rotation struct {
	allocationEvents
	scheme sampling.Rotation
}

func (a rotation) method() (Method, error) {
	bands, period := a.run.Strategy.Bands(), a.scheme.EpochSteps
	switch {
	case a.run.MaxExamplesPerOwner > 1:
		return a.run.refuse("it is for one example per owner in each pool: leave out max per owner")
	case a.run.allocated():
		return PLD, nil
	case a.run.Sampler.Truncation != nil:
		return a.run.refuseBy(noTruncation)
	case !a.run.Strategy.NonNegative():
		return a.run.refuseBy(negativeEntry)
	case bands > period:
		return a.run.refuse(
			"the strategy has %d bands, epoch-steps is %d, and the bands must be at most epoch-steps, so that an example meets the examples of the period before and after alone: take a strategy of at most %d bands, or epoch-steps of at least %d",
			bands,
			period,
			period,
			bands,
		)
	}
	return MonteCarlo, nil
}

// sensitivity: of E periods an owner takes part once in each, and only columns of adjacent ones may
// overlap. E squared norms and E-1 products of two columns, twice each, are at most 3E-2 times the
// largest squared norm.
func (a rotation) sensitivity() (mechanism.Sensitivity, error) {
	periods := (a.scheme.Steps + a.scheme.EpochSteps - 1) / a.scheme.EpochSteps
	return mechanism.Sensitivity{Value: math.Sqrt(float64(3*periods-2)) * slices.Max(a.run.ColumnNorms())}, nil
}

func (a rotation) participation() participation {
	return a.run.uniform(a.scheme.Steps, a.scheme.EpochSteps)
}

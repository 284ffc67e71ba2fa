package tilt

import (
	"math"
	"slices"

	"minsep/internal/accounting/pld"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/likelihood"
)

// classBound is a bound of H(Q,P) of one example that takes part at most once, by a privacy loss
// distribution (F5.15). A class is steps that are as far apart as the number of bands, so that its
// columns do not overlap, and f is a mean over classes. The result is 1 where there is no such bound.
// Without it, runs of many steps take twice the time, for tangents and samples.
func classBound(c Config, columns *likelihood.Columns) float64 {
	once, is := singleOf(c.Spec)
	norm := slices.Max(columns.SquaredNorms(c.Spec.Factor()))
	if !is || c.Spec.MaxExamplesPerOwner > 1 || norm > mostClassNorm {
		return 1
	}
	steps := c.Spec.Steps()
	places := min(mostClassPlaces, max(1, steps/columns.Bands))
	class := stepClass(c.Spec, columns, places)
	class.Steps = max(class.Steps, float64(places)/(once.each*float64(steps))*(1-inflation))
	composition, err := pld.Compose([]pld.Step{{Event: class, Count: 1}}, pld.Options{})
	if err != nil {
		return 1
	}
	delta, err := composition.QP.Delta(c.Epsilon)
	if err != nil || !(delta < 1) {
		return 1
	}
	return delta * (1 + inflation)
}

// stepClass is the ratio of a class of so many steps, at one of which everybody takes part.
func stepClass(s montecarlo.Spec, columns *likelihood.Columns, places int) pld.Allocation {
	return pld.Allocation{
		Steps:           float64(places),
		Places:          places,
		NoiseMultiplier: s.NoiseMultiplier,
		Sensitivity:     math.Sqrt(slices.Max(columns.SquaredNorms(1))) * (1 + inflation),
	}
}

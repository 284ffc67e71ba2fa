package tilt

import (
	"math"
	"slices"

	"minsep/internal/accounting/pld"
	"minsep/internal/montecarlo/internal/likelihood"
)

// classBound is a bound of H(Q,P) of one example that takes part at most once, by a privacy loss
// distribution (F5.15). A class is steps that are as far apart as the number of bands, so that its
// columns do not overlap, and f is a mean over classes. The result is 1 where there is no such bound.
// Without it, runs of many steps take twice the time, for tangents and samples.
func classBound(c Config, columns *likelihood.Columns) float64 {
	once, is := singleOf(c.Spec)
	sensitivity := math.Sqrt(slices.Max(columns.SquaredNorms(1))) * (1 + inflation)
	norm := sensitivity / c.Spec.NoiseMultiplier
	if !is || c.Spec.MaxExamplesPerOwner > 1 || norm*norm > mostClassNorm {
		return 1
	}
	steps := c.Spec.Steps()
	places := min(mostClassPlaces, max(1, steps/columns.Bands))
	total := max(float64(places), float64(places)/(once.each*float64(steps))*(1-inflation))
	class := pld.Allocation{
		Steps:           total,
		Places:          places,
		NoiseMultiplier: c.Spec.NoiseMultiplier,
		Sensitivity:     sensitivity,
	}
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

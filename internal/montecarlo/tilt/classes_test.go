package tilt

import (
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/accounting/pld"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/must"
	"minsep/sampling"
)

// TestClassBoundIsTheFormula: the bound of H(Q,P) in classes is that of F5.15, and not below the
// divergence.
func TestClassBoundIsTheFormula(t *testing.T) {
	rng := rand.New(rand.NewPCG(2026, 18))
	for range 30 {
		column, square := []float64{1}, 1.0
		for range rng.IntN(3) {
			x := 0.2 + 0.5*rng.Float64()
			column = append(column, x)
			square += x * x
		}
		steps := len(column) + rng.IntN(12)
		epoch := steps + rng.IntN(10)
		sigma, epsilon := 0.6+rng.Float64(), rng.Float64()
		strategy := toeplitz(steps, column...)
		s := specOf(sampling.EpochMinSep{Steps: steps, MinSep: steps, EpochSteps: epoch}, strategy, sigma)
		places := steps / len(column)
		class := pld.Allocation{Places: places, Steps: float64(places) * float64(epoch) / float64(steps), NoiseMultiplier: sigma, Sensitivity: math.Sqrt(square)}
		composition := must.Get(pld.Compose([]pld.Step{{Event: class, Count: 1}}, pld.Options{}))(t)
		want := must.Get(composition.QP.Delta(epsilon))(t)
		got := classBound(Config{Spec: s, Epsilon: epsilon, Direction: montecarlo.Q}, likelihood.NewColumns(strategy))
		if want > 1e-8 && want < 1 && !isNear(got, want, 1e-9, 1e-6) {
			t.Errorf("%d steps of %d, %v, σ = %g, ε = %g: %g, by the formula %g", steps, epoch, column, sigma, epsilon, got, want)
		}
		if steps > 2 {
			continue
		}
		list := epochPatterns(2, min(2, epoch), epoch)
		var means [][]float64
		var weights []float64
		for _, a := range list {
			means, weights = append(means, append(image(strategy, a.hits), 0)[:2]), append(weights, a.prob)
		}
		if steps == 2 {
			if _, qp := twoSteps(means, weights, sigma, epsilon); got < qp*(1-1e-4) {
				t.Errorf("%d steps: %g is below H(Q,P) = %g", steps, got, qp)
			}
		}
	}
	twice := specOf(sampling.EpochMinSep{Steps: 6, MinSep: 2, EpochSteps: 3}, toeplitz(6, 1, .5), 1)
	if got := classBound(Config{twice, 1, montecarlo.Q}, likelihood.NewColumns(twice.Strategy)); got != 1 {
		t.Errorf("two epochs: %g", got)
	}
}

package tilt

import (
	"math"

	"minsep/internal/accounting/pld"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/likelihood"
)

// takingBound bounds H(P,Q) of an example that takes part at most once, by powers of g in f = 1-q +
// qg (F5.17). Here q is the probability that the example takes part, and g its ratio given that it
// does. The bound is +Inf for other schemes, where the steps have different probabilities, and for
// q above nearlyAll.
func takingBound(c Config, columns *likelihood.Columns, watch watcher) float64 {
	once, is := singleOf(c.Spec)
	q := float64(c.Spec.Steps) * once.First * (1 + inflation) // 1 - never has few digits of a small q
	if !is || once.Ratio != 1 || c.Spec.MaxExamplesPerOwner > 1 || c.Spec.MaxBatchSize > 0 || q > nearlyAll {
		return math.Inf(1)
	}
	taking := Config{Spec: everybodyOnce(c.Spec), Epsilon: pld.TakingEpsilon(c.Epsilon, q, 1-q) * (1 - 1e-12), Direction: montecarlo.P}
	f := newForward(taking, columns, math.Inf(1), Tables{}, watch)
	f.orders(true)
	return q * f.bound * (1 + inflation)
}

// everybodyOnce is the spec of a run in which everybody takes part at one step, each with the same
// probability: an epoch.
func everybodyOnce(s montecarlo.Spec) montecarlo.Spec {
	return montecarlo.Spec{Scheme: montecarlo.EpochMinSep, Steps: s.Steps, MinSep: s.Steps, EpochSteps: s.Steps, NoiseMultiplier: s.NoiseMultiplier, Strategy: s.Strategy}
}

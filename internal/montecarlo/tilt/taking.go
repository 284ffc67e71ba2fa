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
	q := float64(c.Spec.Steps()) * once.each * (1 + inflation) // 1 - never has few digits of a small q
	if !is || c.Spec.MaxExamplesPerOwner > 1 || q > nearlyAll {
		return math.Inf(1)
	}
	law, err := uniformStep(c.Spec.Steps())
	if err != nil {
		return math.Inf(1)
	}
	spec := montecarlo.Spec{Law: law, NoiseMultiplier: c.Spec.NoiseMultiplier, Strategy: c.Spec.Strategy}
	taking := Config{
		Spec:      spec,
		Epsilon:   pld.TakingEpsilon(c.Epsilon, q, 1-q) * (1 - 1e-12),
		Direction: montecarlo.P,
	}
	f := newForward(taking, columns, math.Inf(1), Tables{}, watch)
	f.orders(true)
	return q * f.bound * (1 + inflation)
}

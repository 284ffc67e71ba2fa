package planner

import (
	"math"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/must"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestStepNoise compares the ratio with its definition, and holds where there is none.
func TestStepNoise(t *testing.T) {
	const n, units, batch = 60, 4000, 80
	strategy := must.Get(mechanism.BSR(n, 4))(t)
	sampler := sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: n, EpochSteps: units / batch, MinSep: 4}}
	c := &accounting.Certificate{Status: accounting.Verified, Epsilon: 4, Delta: 1e-5, Run: accounting.Run{Sampler: sampler, Strategy: strategy, MaxExamplesPerOwner: 1, Examples: units}}
	h := strategy.Solve(append([]float64{1}, make([]float64, n-1)...))
	square := 0.0
	for _, v := range h {
		square += v * v
	}
	sigma := must.Get(DPSGD{Epsilon: 4, Delta: 1e-5, Steps: n, Units: units, MaxPerOwner: 1}.NoiseMultiplier(batch))(t)
	got := StepNoiseOf(c, 1.3)
	if want := 1.3 * math.Sqrt(square) / sigma; got == nil || math.Abs(got.Ratio-want) > 1e-12*want || got.NoiseMultiplier != sigma {
		t.Errorf("%+v, want %v beside %v", got, want, sigma)
	}
	c.Run.Examples = 0 // the rate is known all the same
	if other := StepNoiseOf(c, 1.3); other == nil || math.Abs(other.Ratio/got.Ratio-1) > 1e-3 {
		t.Errorf("without the number of examples: %+v, want %+v", other, got)
	}
	for name, change := range map[string]func(c *accounting.Certificate){
		"not verified": func(c *accounting.Certificate) { c.Status = accounting.NotProven },
		"no noise":     func(c *accounting.Certificate) { c.Delta = 0.9999999 },
		"fixed": func(c *accounting.Certificate) {
			c.Run.Sampler = sampling.Spec{Fixed: &sampling.Fixed{Steps: n, MinSep: 4, BatchSize: 80}}
		},
	} {
		other := *c
		change(&other)
		if got := StepNoiseOf(&other, 1.3); got != nil {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if StepNoiseOf(nil, 1) != nil {
		t.Error("of no certificate")
	}
}

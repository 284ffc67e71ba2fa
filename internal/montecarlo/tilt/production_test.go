package tilt

import (
	"math"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/mechanism"
	"minsep/sampling"
)

// production is the published case of arXiv 2602.09338: 7200 steps, bands and min-sep 256,
// 14,745,600 examples in batches of 1793, warm start.
func production(tb testing.TB, sigma float64) montecarlo.Spec {
	tb.Helper()
	c, err := mechanism.Problem{Workload: mechanism.Prefix(7200)}.Make(tb.Context(), mechanism.KindBandedToeplitz, 256)
	if err != nil {
		tb.Fatal(err)
	}
	rate := 1793.0 / 14745600
	return specOf(sampling.BMinSep{Prob: rate / (1 - rate*255), Steps: 7200, MinSep: 256, WarmStart: true}, c, sigma)
}

// TestProduction holds M of the published case at ε = 10, that is 9.0e-9 with noise multiplier 0.47,
// where δ = 1.301e-8 is proven by it alone, and 1.69e-7 with 0.448. TestPublishedProduction of
// package calibration draws the samples.
func TestProduction(t *testing.T) {
	const epsilon = 10
	spec := production(t, 0.47)
	proven, err := NewProposal(t.Context(), Config{spec, epsilon, montecarlo.P})
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(proven.Divergence/9.0e-9-1) > 0.01 {
		t.Errorf("σ = 0.47: M = %g, want 9.0e-9", proven.Divergence)
	}
	spec.NoiseMultiplier = 0.448
	reverse, err := NewProposal(t.Context(), Config{spec, epsilon, montecarlo.Q})
	if err != nil || reverse.Method != Zero {
		t.Errorf("H(Q,P): %s, %v: want zero", reverse.Method, err)
	}
	proposal, err := NewProposal(t.Context(), Config{spec, epsilon, montecarlo.P})
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(proposal.Bound/1.69e-7-1) > 0.01 {
		t.Errorf("σ = 0.448: M = %g, want 1.69e-7", proposal.Bound)
	}
}

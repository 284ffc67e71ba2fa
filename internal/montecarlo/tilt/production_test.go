//go:build unix

package tilt

import (
	"errors"
	"math"
	"syscall"
	"testing"
	"time"

	"minsep/internal/montecarlo"
	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

// production is the published case of arXiv 2602.09338: 7200 steps, bands and min-sep 256,
// 14,745,600 examples in batches of 1793, warm start.
func production(tb testing.TB, sigma float64) montecarlo.Spec {
	tb.Helper()
	c, _, err := mechanism.Problem{Workload: mechanism.Prefix(7200)}.OptimalToeplitz(256)
	if err != nil {
		tb.Fatal(err)
	}
	rate := 1793.0 / 14745600
	return specOf(sampling.BMinSep{Prob: rate / (1 - rate*255), Steps: 7200, MinSep: 256, WarmStart: true}, c, sigma)
}

// cpu is the processor time that the process has used.
func cpu(tb testing.TB) time.Duration {
	tb.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		tb.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestProduction verifies the published case at (10, 1.301e-8): with noise multiplier 0.448 and
// δ' = .8 δ by the samples of F5.1′, with 0.47 by the Rényi bound alone. One noise multiplier was
// validated with 7.5e9 plain samples in 300 days of a processor (arXiv 2602.09338).
func TestProduction(t *testing.T) {
	const epsilon, delta, accept, verify = 10, 1.301e-8, 0.8 * 1.301e-8, 1.2e-8
	start := cpu(t)
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
	if !stattest.Long() {
		return // some 10 s of a processor
	}
	planned := cpu(t)
	v, err := NewVerifier(proposal, stream.PublicKey("verify", []byte("production")))
	if err != nil {
		t.Fatal(err)
	}
	prepared := cpu(t)
	// F5.1′ with q = δ - δ_v.
	a, b := accept/proposal.Bound, verify/proposal.Bound
	samples := uint64(math.Ceil(-math.Log(delta-verify) / (a*math.Log(a/b) + (1-a)*math.Log((1-a)/(1-b)))))
	sum, err := v.Sum(t.Context(), 0, samples, 0)
	if err != nil {
		t.Fatal(err)
	}
	mean := sum.Mean(samples) * proposal.Bound
	t.Logf("σ = 0.448: M/δ = %.1f, %d samples, mean %.3g; CPU: two proposals %v, tables %v, samples %v", proposal.Bound/delta, samples, mean,
		planned-start, prepared-planned, cpu(t)-prepared)
	if mean > accept {
		t.Errorf("mean %g is not accepted: above δ' = %g", mean, accept)
	}
	// The values' standard deviation is below √(M·mean).
	if limit := 7 * math.Sqrt(proposal.Bound*mean/float64(samples)); math.Abs(mean-6.3e-9) > limit+0.6e-9 {
		t.Errorf("mean %g: known is 6.6e-9 ± .6e-9", mean)
	}
	if samples < proposal.MinSamples(delta) {
		t.Errorf("%d samples are fewer than an estimate needs", samples)
	}
	if _, err := v.Estimate(100, delta); !errors.Is(err, ErrTooFewSamples) {
		t.Errorf("100 samples: got %v", err)
	}
}

// TestProductionProvable finds the smallest proven noise multiplier of the published case.
func TestProductionProvable(t *testing.T) {
	if !stattest.Long() {
		t.Skip("takes a minute of a processor: MINSEP_LONG runs it")
	}
	start := cpu(t)
	found, err := SmallestProvable(production(t, 0.448), 10, 1.301e-8)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("σ = %.4f proves %.4g; CPU %v", found.NoiseMultiplier, found.Proposals[0].Divergence, cpu(t)-start)
	if found.NoiseMultiplier < 0.462 || found.NoiseMultiplier > 0.469 {
		t.Errorf("σ = %v, want 0.465", found.NoiseMultiplier)
	}
}

// TestProductionAtMostOnce verifies the published case with min-sep at the steps: 14 % less noise
// for the same batches.
func TestProductionAtMostOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some 2 s of a processor")
	}
	const epsilon, delta, accept, verify = 10, 1.301e-8, 0.8 * 1.301e-8, 1.2e-8
	spec := production(t, 0.384)
	rate := 1793.0 / 14745600
	spec = specOf(sampling.BMinSep{Prob: rate / (1 - rate*7199), Steps: 7200, MinSep: 7200, WarmStart: true}, spec.Strategy, spec.NoiseMultiplier)
	reverse, err := NewProposal(t.Context(), Config{spec, epsilon, montecarlo.Q})
	if err != nil || reverse.Method != Zero {
		t.Errorf("H(Q,P): %s, %v: want zero", reverse.Method, err)
	}
	start := cpu(t)
	proposal, err := NewProposal(t.Context(), Config{spec, epsilon, montecarlo.P})
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(proposal.Bound/delta/6.39-1) > 0.01 {
		t.Errorf("M/δ = %g, want 6.39", proposal.Bound/delta)
	}
	v, err := NewVerifier(proposal, stream.PublicKey("verify", []byte("at most once")))
	if err != nil {
		t.Fatal(err)
	}
	a, b := accept/proposal.Bound, verify/proposal.Bound
	samples := uint64(math.Ceil(-math.Log(delta-verify) / (a*math.Log(a/b) + (1-a)*math.Log((1-a)/(1-b)))))
	sum, err := v.Sum(t.Context(), 0, samples, 0)
	if err != nil {
		t.Fatal(err)
	}
	mean := sum.Mean(samples) * proposal.Bound
	t.Logf("M/δ = %.2f, %d samples, mean %.3g, CPU %v", proposal.Bound/delta, samples, mean, cpu(t)-start)
	if mean > accept {
		t.Errorf("mean %g is not accepted: above δ' = %g", mean, accept)
	}
}

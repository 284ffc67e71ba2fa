package calibration

import (
	"testing"
	"time"

	"minsep/internal/accounting"
	"minsep/internal/must"
	"minsep/internal/stattest"
	"minsep/mechanism"
	"minsep/sampling"
)

// production is the run of arXiv 2602.09338, of owners of so many examples.
func production(t *testing.T, examplesPerOwner int) accounting.Run {
	t.Helper()
	strategy := must.Get(mechanism.Problem{Workload: mechanism.Prefix(7200)}.Make(t.Context(), mechanism.KindBandedToeplitz, 256))(t)
	scheme := must.Get(sampling.BMinSep{Steps: 7200, MinSep: 256, WarmStart: true}.WithBatchSize(1793, 14_745_600))(t)
	return accounting.Run{Sampler: sampling.Spec{BMinSep: &scheme}, Strategy: strategy, MaxExamplesPerOwner: examplesPerOwner, Examples: 14_745_600}
}

// TestPublishedProduction certifies the production run of arXiv 2602.09338 from scratch: 7200
// steps, 256 bands, batches of 1793 of 14,745,600 examples, (10, 1.301e-8). One noise multiplier,
// 0.47, was validated there with 7.5e9 samples in 300 days of a processor; the exact answer is
// 0.4410 ± .0005.
func TestPublishedProduction(t *testing.T) {
	if !stattest.Long() {
		t.Skip("takes a minute of a processor: MINSEP_LONG runs it")
	}
	run := production(t, 1)
	start := time.Now()
	plan := must.Get(Problem{Run: run, Epsilon: 10, Delta: 1.301e-8, Samples: 40_000, CodeVersion: "test"}.Plan(t.Context()))(t)
	p := plan.Protocol
	for _, c := range p.Candidates {
		t.Logf("σ = %.5f: M = %.3g, %d samples", c.NoiseMultiplier, c.Trials[0].Bound, c.Trials[0].Samples)
	}
	designed := time.Now()
	_, c := certify(t, p, 1<<14, 0)
	t.Logf("certified σ = %.5f, mean %.3g; %v to design, %v to verify", c.NoiseMultiplier, c.Points[0].Directions[0].Mean, designed.Sub(start), time.Since(designed))
	if c.NoiseMultiplier > 0.448 || c.NoiseMultiplier < 0.4405 {
		t.Errorf("σ = %g, want at most 0.448 and no less than the exact answer", c.NoiseMultiplier)
	}
}

// TestTruncatedProduction certifies the run of TestPublishedProduction as it was run, with batches
// of at most 2080, at a noise multiplier that it needs without a maximum too: truncation costs less than
// a hundredth of δ.
func TestTruncatedProduction(t *testing.T) {
	if !stattest.Long() {
		t.Skip("takes some seconds of a processor: MINSEP_LONG runs it")
	}
	run := production(t, 1)
	run.Sampler.Truncation = &sampling.Truncation{MaxBatchSize: 2080, Pad: true}
	plan := must.Get(Problem{Run: run, Epsilon: 10, Delta: 1.301e-8, NoiseMultiplier: 0.448, Samples: 40_000, CodeVersion: "test"}.Plan(t.Context()))(t)
	trial := plan.Protocol.Candidates[0].Trials[0]
	if trial.Truncation == nil || trial.Truncation.Rule != accounting.Twice || trial.Truncation.Cost > 1e-10 {
		t.Errorf("truncation costs %+v", trial.Truncation)
	}
	_, c := certify(t, plan.Protocol, 1<<14, 0)
	t.Logf("σ = %.5f: %d samples, M = %.3g, %+v", c.NoiseMultiplier, trial.Samples, trial.Bound, *trial.Truncation)
}

package verification

import (
	"context"
	"os"
	"testing"
	"time"

	"minsep/accounting"
	"minsep/accounting/ledger"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestReach prints what noise multipliers are certified of what budgets. It is run by hand: REACH=1
// go test -run TestReach -v.
func TestReach(t *testing.T) {
	if os.Getenv("REACH") == "" {
		t.Skip("REACH is not set: a table of figures, made by hand")
	}
	bmin := func(n, b int, p float64, warm bool) sampling.Spec {
		return sampling.Spec{BMinSep: &sampling.BMinSep{Prob: p, Steps: n, MinSep: b, WarmStart: warm}}
	}
	for _, c := range []struct {
		name           string
		sampler        sampling.Spec
		bands, most    int
		epsilon, delta float64
		samples        uint64
	}{
		{"b-min-sep n=64 b=4", bmin(64, 4, 1./13, true), 4, 1, 2, 1e-3, 50_000},
		{"b-min-sep n=128 b=8", bmin(128, 8, 0.03, true), 8, 1, 1, 1e-5, 100_000},
		{"b-min-sep n=128 b=8", bmin(128, 8, 0.05, true), 4, 1, 8, 1e-6, 100_000},
		{"b-min-sep cold, two examples", bmin(64, 8, 0.02, false), 4, 2, 4, 1e-4, 50_000},
		{"balls-in-bins n=64 T=16", sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: 64, Period: 16}}, 8, 1, 4, 1e-4, 100_000},
		{"poisson, two bands", sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.02, Steps: 64}}, 2, 1, 2, 1e-4, 3_000_000},
	} {
		strategy, _, err := mechanism.Problem{Workload: mechanism.Prefix(c.sampler.Scheme().NumSteps())}.OptimalToeplitz(c.bands)
		if err != nil {
			t.Fatal(err)
		}
		run := accounting.Run{Sampler: c.sampler, Strategy: strategy, MaxExamplesPerOwner: c.most}
		begin := time.Now()
		plan, err := Problem{Run: run, Epsilon: c.epsilon, Delta: c.delta, Samples: c.samples, CodeVersion: "test"}.Plan(t.Context())
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		l, err := ledger.Create(t.TempDir(), plan.Protocol)
		if err != nil {
			t.Fatal(err)
		}
		cert, err := Finish(context.Background(), l, 1<<16, 0)
		l.Close()
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		var tried []float64
		for _, candidate := range plan.Protocol.Candidates {
			tried = append(tried, candidate.NoiseMultiplier)
		}
		t.Logf("%-30s (%g, %g) %7d samples: estimate %.4f, certified %.4f (+%.2f %%) of %.5g, %.0f s", c.name, c.epsilon, c.delta, c.samples,
			plan.Estimate, cert.NoiseMultiplier, 100*(cert.NoiseMultiplier/plan.Estimate-1), tried, time.Since(begin).Seconds())
	}
}

// TestFewEstimates has budgets that end the estimates before one is near δ: no noise multiplier is
// drawn from a line through estimates that say next to nothing. The one that needs no samples is
// taken.
func TestFewEstimates(t *testing.T) {
	strategy, _, err := mechanism.Problem{Workload: mechanism.Prefix(32)}.OptimalToeplitz(4)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		prob     float64
		examples int
		samples  uint64
	}{{0.02, 2, 2000}, {0.02, 2, 5000}, {0.05, 2, 2000}, {0.02, 3, 2000}, {0.05, 3, 5000}, {0.02, 1, 1000}} {
		run := accounting.Run{Sampler: sampling.Spec{BMinSep: &sampling.BMinSep{Prob: c.prob, Steps: 32, MinSep: 4, WarmStart: true}},
			Strategy: strategy, MaxExamplesPerOwner: c.examples}
		plan, err := Problem{Run: run, Epsilon: 8, Delta: 1e-2, Samples: c.samples, CodeVersion: "test"}.Plan(t.Context())
		if err != nil {
			t.Errorf("%+v: %v", c, err)
			continue
		}
		if least := plan.Protocol.Candidates[0].NoiseMultiplier; !(least > 0.3 && least < 2) {
			t.Errorf("%+v: the first candidate has noise multiplier %g", c, least)
		}
	}
}

package calibration

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/montecarlo"
	"minsep/internal/must"
	"minsep/internal/stattest"
	"minsep/mechanism"
	"minsep/sampling"
)

// truncatedRuns are runs of 4000 examples, in batches of 250 where nothing else is said, with an
// affordable maximum.
func truncatedRuns(t *testing.T) map[string]accounting.Run {
	t.Helper()
	runs := map[string]accounting.Run{}
	add := func(name string, owners int, change func(*accounting.Run)) {
		r := smallRun()
		r.MaxExamplesPerOwner, r.Examples = owners, 4000
		change(&r)
		size, err := r.SuggestMaxBatchSize(truncatedEpsilon, truncatedDelta)
		if err != nil || size < 251 || size > 500 {
			t.Fatalf("%s: suggested are batches of %d, %v", name, size, err)
		}
		r.Sampler.Truncation = &sampling.Truncation{MaxBatchSize: size}
		runs[name] = r
	}
	add("b-min-sep", 1, func(*accounting.Run) {})
	add("b-min-sep, cold", 1, func(r *accounting.Run) {
		cold := *r.Sampler.BMinSep
		cold.WarmStart = false
		r.Sampler.BMinSep = &cold
	})
	add("two examples per owner", 2, func(*accounting.Run) {})
	add("more bands than min-sep", 1, func(r *accounting.Run) {
		s := *r.Strategy
		s.Toeplitz = append(append([]float64(nil), s.Toeplitz...), 0.1)
		r.Strategy = &s
	})
	add("balls-in-bins", 1, func(r *accounting.Run) {
		r.Sampler = sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: 64, Period: 16}}
	})
	add("secret parts", 1, func(r *accounting.Run) {
		r.Sampler = sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.25, Steps: 64, MinSep: 4, SecretPartition: true}}
	})
	add("public parts", 1, func(r *accounting.Run) {
		r.Sampler = sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.25, Steps: 64, MinSep: 4}}
	})
	add("poisson, four examples per owner", 4, func(r *accounting.Run) {
		r.Sampler, r.Strategy = sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.0625, Steps: 64}}, mechanism.Identity(64)
	})
	return runs
}

const truncatedEpsilon, truncatedDelta = 2.0, 1e-3

// TestTruncatedPlans certifies runs with a maximum batch size, most of which have no pair of their
// own. The cost is in every trial and is taken off its threshold, and whoever reads the protocol
// finds a cost that is too low.
func TestTruncatedPlans(t *testing.T) {
	for name, run := range truncatedRuns(t) {
		if !stattest.Long() && name != "b-min-sep" && name != "two examples per owner" {
			continue
		}
		problem := Problem{Run: run, Epsilon: truncatedEpsilon, Delta: truncatedDelta, Samples: 30_000, CodeVersion: "test"}
		if run.Sampler.CyclicPoisson != nil || run.Strategy.Bands() > run.Sampler.Scheme().Separation() && run.Sampler.BallsInBins == nil {
			problem.Samples = 400_000 // plain ones
		}
		plan, err := problem.Plan(t.Context())
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		p := plan.Protocol
		for i, candidate := range p.Candidates {
			for j, trial := range candidate.Trials {
				if trial.Truncation == nil {
					if !run.TruncatedPair() {
						t.Errorf("%s: trial %d of candidate %d has no cost", name, j, i)
					}
					continue
				}
				verify := p.Points[0].Verify - trial.Truncation.Cost
				accept := trial.Accept
				if accept == 0 {
					accept = p.Points[0].Accept
				}
				if trial.Samples == 0 && trial.Bound > verify ||
					trial.Samples > 0 && accounting.FailureProbability(trial.Samples, trial.Bound, accept, verify) > p.Points[0].FailureProbability*(1+1e-9) {
					t.Errorf("%s: trial %d of candidate %d does not leave the cost: %+v", name, j, i, trial)
				}
			}
		}
		if err := CheckProofs(t.Context(), p); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		_, c := certify(t, p, 1<<14, 0)
		t.Logf("%s: batches of at most %d, σ = %.4g, estimate %.4g, %+v", name, run.Sampler.Truncation.MaxBatchSize, c.NoiseMultiplier, plan.Estimate, c.Points[0].Directions[0].Truncation)
		if c.NoiseMultiplier < plan.Estimate*0.99 || c.NoiseMultiplier > plan.Estimate*1.25 {
			t.Errorf("%s: σ = %g, the estimate is %g", name, c.NoiseMultiplier, plan.Estimate)
		}
		if p.Candidates[0].Trials[0].Truncation == nil {
			continue
		}
		rule := p.Candidates[0].Trials[0].Truncation.Rule
		p.Candidates[0].Trials[0].Truncation.Rule = "no batch can be cut"
		if err := CheckProofs(t.Context(), p); !errors.Is(err, accounting.ErrNotVerified) {
			t.Errorf("%s: another rule: %v", name, err)
		}
		p.Candidates[0].Trials[0].Truncation.Rule = rule
		p.Candidates[0].Trials[0].Truncation.Cost *= 0.99
		if err := CheckProofs(t.Context(), p); !errors.Is(err, accounting.ErrNotVerified) {
			t.Errorf("%s: a cost that is too low: %v", name, err)
		}
	}
}

// TestTruncationTooExpensive: a maximum that costs more than δ is refused with one that does not, unless
// the pair of its own serves.
func TestTruncationTooExpensive(t *testing.T) {
	run := truncatedRuns(t)["two examples per owner"]
	want := run.Sampler.Truncation.MaxBatchSize
	run.Sampler.Truncation = &sampling.Truncation{MaxBatchSize: 250}
	problem := Problem{Run: run, Epsilon: truncatedEpsilon, Delta: truncatedDelta, CodeVersion: "test"}
	_, err := problem.Plan(t.Context())
	var dear *accounting.TruncationError
	if !errors.As(err, &dear) || !errors.Is(err, accounting.ErrNotVerified) || dear.Suggested < 251 || dear.Suggested > want || dear.Cost < truncatedDelta {
		t.Fatalf("got %v, want a suggestion of at most %d", err, want)
	}
	run.Sampler.Truncation.MaxBatchSize = dear.Suggested
	for _, d := range montecarlo.Directions {
		if cost, err := run.TruncationCost(d, truncatedEpsilon); err != nil || cost.Cost > truncatedDelta/2 {
			t.Errorf("what is suggested costs %+v, %v", cost, err)
		}
	}
}

// TestTruncationBesideEarlier: a maximum may cost half of what the failure probabilities of earlier
// protocols leave of δ, and more is refused with one that does not.
func TestTruncationBesideEarlier(t *testing.T) {
	run := truncatedRuns(t)["two examples per owner"]
	cost, err := run.MostTruncationCost(truncatedEpsilon)
	if err != nil || cost >= truncatedDelta/2 {
		t.Fatalf("the cost is %g, %v", cost, err)
	}
	for _, sigma := range []float64{0, 3} {
		problem := Problem{Run: run, Epsilon: truncatedEpsilon, Delta: truncatedDelta, NoiseMultiplier: sigma, Samples: 30_000, CodeVersion: "test"}
		problem.Earlier = []accounting.Earlier{{ProtocolSHA256: strings.Repeat("0", 64), FailureProbability: truncatedDelta - 1.5*cost}}
		_, err = problem.Plan(t.Context())
		var dear *accounting.TruncationError
		if !errors.As(err, &dear) || dear.Cost != cost || dear.Delta > 1.6*cost || dear.Suggested <= run.Sampler.Truncation.MaxBatchSize {
			t.Errorf("σ = %g: got %v, want a larger maximum", sigma, err)
		}
		problem.Earlier[0].FailureProbability = truncatedDelta
		if _, err = problem.Plan(t.Context()); err == nil || !strings.Contains(err.Error(), "earlier") {
			t.Errorf("σ = %g: nothing of δ is left: got %v", sigma, err)
		}
	}
}

// TestWithoutSamplesBesideEarlier: a claim without samples shares δ with no earlier protocol, even if
// these use all of δ up, with a maximum batch size and with additional ε.
func TestWithoutSamplesBesideEarlier(t *testing.T) {
	run := truncatedRuns(t)["poisson, four examples per owner"]
	problem := Problem{Run: run, Epsilon: truncatedEpsilon, Delta: truncatedDelta, AlsoEpsilon: []float64{1}, CodeVersion: "test"}
	alone := must.Get(problem.Plan(t.Context()))(t)
	problem.Earlier = []accounting.Earlier{{ProtocolSHA256: strings.Repeat("0", 64), FailureProbability: truncatedDelta}}
	beside, err := problem.Plan(t.Context())
	if err != nil || !reflect.DeepEqual(beside.Protocol, alone.Protocol) {
		t.Errorf("%+v, %v: want %+v", beside, err, alone.Protocol)
	}
}

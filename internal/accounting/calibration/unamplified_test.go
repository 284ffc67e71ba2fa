package calibration_test

import (
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/ledger"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestUnamplifiedIsTheLargestPattern: the proof without amplification is the bound F5.16 of the
// pattern with the largest norm and of the probability to take part at all, as both are enumerated;
// no more, where the sensitivity of the scheme is known exactly. TestBoundsHold has the other side.
func TestUnamplifiedIsTheLargestPattern(t *testing.T) {
	rng := rand.New(rand.NewPCG(2026, 12))
	seen := map[string]int{}
	for range 400 {
		c := randomCase(rng, 1+rng.IntN(4), 3)
		name := c.run.Sampler.Scheme().Name()
		if method, err := c.run.Method(); err != nil || method != accounting.MonteCarlo || c.run.Majorized() {
			continue
		}
		pq, qp, err := c.run.Prove(c.sigma, c.epsilon)
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		l := c.distributions[0]
		most := 0.0
		for _, pattern := range l {
			square := 0.0
			for _, row := range rows(c.run.Strategy) {
				sum := 0.0
				for j, v := range row {
					sum += v * float64(pattern.x[j])
				}
				square += sum * sum
			}
			most = max(most, math.Sqrt(square))
		}
		q, gamma := 1-l.none(), math.Exp(c.epsilon)
		delta := func(ratio float64) float64 {
			d, err := accounting.Gaussian{Sensitivity: most, NoiseMultiplier: c.sigma}.Delta(math.Log(ratio))
			if err != nil {
				t.Fatalf("%v: %v", c, err)
			}
			return d
		}
		if q < 1e-5 || gamma*(1-q) > 1-1e-3 { // few digits are left here
			continue
		}
		a := 1 - gamma*(1-q)
		wantPQ, wantQP := q*delta(1+(gamma-1)/q), a*delta(max(1, gamma*q/a))
		if wantPQ < 1e-200 || wantQP < 1e-200 {
			continue
		}
		seen[name]++
		loose := 1 + 1e-5
		if b := c.run.Sampler.BMinSep; b != nil && b.Prob == 1 && !b.WarmStart || name == "epoch-min-sep" || c.run.Strategy.Bands() > c.run.Sampler.Scheme().Separation() {
			loose = math.Inf(1) // a part of the sets that the sensitivity is for has a probability of 0
		}
		if !(pq >= wantPQ*(1-1e-5) && pq <= wantPQ*loose) || !(qp >= wantQP*(1-1e-5) && qp <= wantQP*loose) {
			t.Errorf("%v: %g and %g, by the largest pattern %g and %g", c, pq, qp, wantPQ, wantQP)
		}
	}
	if seen["b-min-sep"] < 60 || seen["balls-in-bins"] < 10 || seen["epoch-min-sep"] < 3 {
		t.Errorf("only %v cases", seen)
	}
}

// TestUnamplifiedPlan: where no moment is small enough at any noise, and where there are more bands
// than min-sep, the refusal of a budget of next to no samples names the Gaussian mechanism's noise.
// Who asks for it gets it: the protocol is checked again, and half of its bound is refused.
func TestUnamplifiedPlan(t *testing.T) {
	toeplitz, err := mechanism.Problem{Workload: mechanism.Prefix(100)}.Make(t.Context(), mechanism.KindBandedToeplitz, 16)
	if err != nil {
		t.Fatal(err)
	}
	short := &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 8, Toeplitz: []float64{1, 0.5, 0.25}}
	for _, c := range []struct {
		name        string
		scheme      sampling.BMinSep
		strategy    *mechanism.Strategy
		sensitivity float64 // of those who all take part
	}{
		{"once for sure", sampling.BMinSep{Prob: 1, Steps: 100, MinSep: 100, WarmStart: true}, toeplitz, 1},
		{"more bands than min-sep", sampling.BMinSep{Prob: 1, Steps: 8, MinSep: 2, WarmStart: true}, short, math.Sqrt(1 + 0.25 + 3*(1.25*1.25+0.25))},
	} {
		run := accounting.Run{Sampler: sampling.Spec{BMinSep: &c.scheme}, Strategy: c.strategy, MaxExamplesPerOwner: 1}
		problem := calibration.Problem{Run: run, Epsilon: 1, Delta: 1e-5, Samples: 10, Workers: 1}
		want, err := accounting.GaussianNoiseMultiplier(1, 0.9e-5, c.sensitivity)
		if err != nil {
			t.Fatal(err)
		}
		var few *calibration.TooFewError
		if _, err := problem.Plan(t.Context()); !errors.As(err, &few) || few.Proven < want*(1-1e-9) || few.Proven > want*(1+1e-4) {
			t.Errorf("%s: %v, %+v, want the noise multiplier %g", c.name, err, few, want)
			continue
		}
		problem.NoiseMultiplier = few.Proven
		plan, err := problem.Plan(t.Context())
		if err != nil {
			t.Errorf("%s: %v", c.name, err)
			continue
		}
		last := plan.Protocol.Candidates[0]
		if last.Trials[0].Method != accounting.ClosedForm || last.Trials[0].Samples != 0 {
			t.Errorf("%s: %+v", c.name, last)
		}
		if err := calibration.CheckProofs(t.Context(), plan.Protocol); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
		l, err := ledger.Create(t.TempDir(), plan.Protocol)
		if err != nil {
			t.Fatal(err)
		}
		if certificate, err := calibration.Finish(t.Context(), l, 1<<14, 1); err != nil || !certificate.WithoutSamples() || certificate.NoiseMultiplier != last.NoiseMultiplier {
			t.Errorf("%s: %+v, %v", c.name, certificate, err)
		}
		last.Trials[0].Bound /= 2
		if err := calibration.CheckProofs(t.Context(), plan.Protocol); !errors.Is(err, accounting.ErrNotVerified) {
			t.Errorf("%s: half of the bound: %v", c.name, err)
		}
		problem.NoiseMultiplier = 1.01 * want
		if plan, err = problem.Plan(t.Context()); err != nil || plan.Protocol.Candidates[0].Trials[0].Samples+plan.Protocol.Candidates[0].Trials[1].Samples > 0 {
			t.Errorf("%s: a noise multiplier that is proven: %+v, %v", c.name, plan, err)
		}
		problem.NoiseMultiplier = 0.98 * want
		if plan, err = problem.Plan(t.Context()); err == nil && plan.Protocol.Candidates[0].Trials[0].Samples == 0 {
			t.Errorf("%s: a noise multiplier that is too small is proven: %+v", c.name, plan.Protocol)
		}
	}
}

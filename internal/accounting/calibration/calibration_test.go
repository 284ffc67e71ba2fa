package calibration

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/ledger"
	"minsep/internal/must"
	"minsep/internal/stattest"
	"minsep/mechanism"
	"minsep/sampling"
)

// smallRun is a case of sigma.json: n = 64, b = 4, p0 = 1/16, bands of the square root, normalised.
// Its exact σ at (2, 1e-3) is
// 1.4841 ± .0045 by Monte Carlo; cyclic Poisson needs 1.728.
func smallRun() accounting.Run {
	c := []float64{1, 0.5, 0.375, 0.3125}
	square := 0.0
	for _, x := range c {
		square += x * x
	}
	for i := range c {
		c[i] /= math.Sqrt(square)
	}
	return accounting.Run{
		Sampler:             sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.07692307692307693, Steps: 64, MinSep: 4, WarmStart: true}},
		Strategy:            &mechanism.Strategy{Kind: mechanism.KindBSR, Steps: 64, Toeplitz: c},
		MaxExamplesPerOwner: 1,
	}
}

func certify(t testing.TB, p *accounting.Protocol, unit uint64, workers int) ([]byte, *accounting.Certificate) {
	t.Helper()
	l := must.Get(ledger.Create(t.TempDir(), p))(t)
	c := must.Get(Finish(context.Background(), l, unit, workers))(t)
	data := must.Get(c.Encode())(t)
	return data, c
}

// TestCertifyBMinSep makes a certificate from scratch, close to the exact answer, the same for any
// units and workers.
func TestCertifyBMinSep(t *testing.T) {
	of := must.Get(Problem{Run: smallRun(), Epsilon: 2, Delta: 1e-3, CodeVersion: "test"}.begin(false))(t)
	must.Do(t, of.sampled(t.Context()))
	p := of.out.Protocol
	if made := len(of.searches[0].estimates) + len(of.searches[1].estimates); made > 5 { // they begin near the noise multiplier
		t.Errorf("%d estimates", made)
	}
	if err := CheckProofs(t.Context(), p); err != nil {
		t.Error(err)
	}
	var last *accounting.Trial
	for _, c := range p.Candidates {
		for i := range c.Trials {
			if c.Trials[i].Samples == 0 && c.Trials[i].Bound > 0 {
				last = &c.Trials[i]
			}
		}
	}
	if last == nil {
		t.Fatal("no trial is proven")
	}
	kept := last.Bound
	last.Bound /= 2
	if err := CheckProofs(t.Context(), p); !errors.Is(err, accounting.ErrNotVerified) {
		t.Errorf("half the proven bound: got %v", err)
	}
	last.Bound = kept
	data, c := certify(t, p, 10_000, 2)
	t.Logf("σ = %.4f of %d candidates, %d and %d samples", c.NoiseMultiplier, len(p.Candidates), c.Points[0].Directions[0].Samples, c.Points[0].Directions[1].Samples)
	if c.NoiseMultiplier < 1.4841-4*0.0046 || c.NoiseMultiplier > 1.4841*1.05 {
		t.Errorf("σ = %g, want at most 5 %% above 1.484", c.NoiseMultiplier)
	}
	if c.Method != accounting.MonteCarlo || c.Status != accounting.Verified {
		t.Errorf("%s, %s", c.Method, c.Status)
	}
	if again, _ := certify(t, p, 1777, 1); !bytes.Equal(again, data) {
		t.Error("other units give another certificate")
	}
}

// drawn makes the plan of smallRun with a budget, and counts the samples of its estimates and of its
// verification.
func drawn(t *testing.T, budget uint64) (p *accounting.Protocol, estimates, verification uint64) {
	t.Helper()
	of := must.Get(Problem{Run: smallRun(), Epsilon: 2, Delta: 1e-3, Samples: budget, CodeVersion: "test"}.begin(false))(t)
	must.Do(t, of.sampled(t.Context()))
	p = of.out.Protocol
	for _, s := range of.searches {
		estimates += s.drawn
	}
	for _, c := range p.Candidates {
		for _, trial := range c.Trials {
			verification += trial.Samples
		}
	}
	return p, estimates, verification
}

// TestBudget: estimates and verification together stay within the budget, and too small a budget is
// refused.
func TestBudget(t *testing.T) {
	for _, budget := range []uint64{1000, 20_000} {
		_, estimates, verification := drawn(t, budget)
		if estimates == 0 || estimates > budget/2 || verification == 0 || estimates+verification > budget || estimates+verification < budget*9/10 {
			t.Errorf("%d and %d samples of a budget of %d", estimates, verification, budget)
		}
	}
	// Of 10 samples there is no estimate, but at least the noise multiplier whose δ is bounded
	// without any.
	least, estimates, verification := drawn(t, 10)
	if estimates+verification > 10 {
		t.Errorf("%d and %d samples of a budget of 10", estimates, verification)
	}
	if _, c := certify(t, least, 1, 1); c.NoiseMultiplier > 1.8 || c.NoiseMultiplier < 1.4841 {
		t.Errorf("10 samples: σ = %g", c.NoiseMultiplier)
	}
	// The budget that a refusal names is enough.
	p := Problem{Run: smallRun(), Epsilon: 2, Delta: 1e-3, Samples: 10, NoiseMultiplier: 1.6, CodeVersion: "test"}
	_, err := p.Plan(t.Context())
	var few *TooFewError
	if !errors.As(err, &few) || few.Need < 10 || few.CPU <= 0 || few.Advised < few.Need || !strings.Contains(err.Error(), "the budget, 10 samples,") {
		t.Fatalf("10 samples for one noise multiplier: got %v", err)
	}
	p.Samples = uint64(few.Advised)
	plan, err := p.Plan(t.Context())
	if err != nil {
		t.Fatalf("%d samples: %v", p.Samples, err)
	}
	certify(t, plan.Protocol, 5000, 0)
}

// TestAdviceHolds: noise multipliers that few samples reject are verified by as many as the error
// says. Samples differ between protocols and between kernels, so it is tried with several: of 20
// advices at 2.5 standard errors, half are followed in vain with probability below 1e-9 if each is
// with at most 0.05.
func TestAdviceHolds(t *testing.T) {
	verify := func(samples uint64, version string, earlier []accounting.Earlier) (*accounting.Protocol, error) {
		plan := must.Get(Problem{Run: smallRun(), Epsilon: 2, Delta: 1e-3, NoiseMultiplier: 1.5, Samples: samples, Earlier: earlier, CodeVersion: version}.Plan(t.Context()))(t)
		l, err := ledger.Create(t.TempDir(), plan.Protocol)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Finish(t.Context(), l, 10_000, 0)
		return plan.Protocol, err
	}
	advices, held, enough := 0, 0, 4
	if stattest.Long() {
		enough = 20
	}
	for try := 0; advices < enough && try < 40; try++ {
		version := fmt.Sprint("test ", try)
		p, err := verify(1000, version, nil)
		var rejected *accounting.NotVerifiedError
		if err == nil {
			continue
		}
		if !errors.As(err, &rejected) {
			t.Fatal(err)
		}
		need, ok := Advised(rejected, 2.5)
		if !ok || need < 2000 || need > 1e6 {
			t.Logf("%g samples are advised, %t", need, ok)
			continue
		}
		advices++
		if _, err := verify(uint64(need), version, []accounting.Earlier{{ProtocolSHA256: strings.Repeat("0", 64), FailureProbability: p.Points[0].FailureProbability}}); err == nil {
			held++
		} else {
			t.Logf("%g samples: %v", need, err)
		}
	}
	if t.Logf("%d of %d advices held", held, advices); advices < enough || held <= enough/2 {
		t.Errorf("%d of %d advices held", held, advices)
	}
}

// TestTwoCandidates: a protocol has one candidate that is likely to be accepted and at most one
// fallback, within the budget, whose noise multiplier is little larger. Of twenty protocols of similar
// claims nine in ten release the first candidate and no two fail in a row; with a probability of .85
// each, fewer than 12 of 20 do with a probability of 1e-3.
func TestTwoCandidates(t *testing.T) {
	first, none, tries := 0, 0, 20
	if !stattest.Long() {
		tries = 5
	}
	for i := range tries {
		plan := must.Get(Problem{Run: smallRun(), Epsilon: 2, Delta: 1e-3 * (1 + float64(i)/100), Samples: 15_000, CodeVersion: "test"}.Plan(t.Context()))(t)
		p := plan.Protocol
		if len(p.Candidates) != 2 || p.Candidates[1].NoiseMultiplier > 1.08*p.Candidates[0].NoiseMultiplier || p.Candidates[0].NoiseMultiplier > 1.04*plan.Estimate {
			t.Fatalf("estimate %g, candidates %+v", plan.Estimate, p.Candidates)
		}
		l := must.Get(ledger.Create(t.TempDir(), p))(t)
		c, err := Finish(t.Context(), l, 1<<14, 0)
		switch {
		case errors.Is(err, accounting.ErrNotVerified):
			none++
		case err != nil:
			t.Fatal(err)
		case c.NoiseMultiplier == p.Candidates[0].NoiseMultiplier:
			first++
		}
	}
	if t.Logf("of %d protocols %d released the first candidate, %d none", tries, first, none); first < tries*6/10 || none > 1 {
		t.Errorf("of %d protocols %d released the first candidate, %d none", tries, first, none)
	}
}

// TestGiven: a given noise multiplier is verified, refused by the estimate if it is far too small,
// and proven without samples if it is large.
func TestGiven(t *testing.T) {
	p := Problem{Run: smallRun(), Epsilon: 2, Delta: 1e-3, Samples: 20_000, CodeVersion: "test"}
	for _, c := range []struct {
		sigma    float64
		samples  bool
		estimate error
	}{{1.55, true, nil}, {1.2, true, ErrEstimatedAbove}, {3, false, nil}} {
		p.NoiseMultiplier = c.sigma
		plan, err := p.Plan(t.Context())
		if !errors.Is(err, c.estimate) {
			t.Errorf("σ = %g: %v, want %v", c.sigma, err, c.estimate)
		}
		if err != nil {
			continue
		}
		_, certificate := certify(t, plan.Protocol, 1<<14, 0)
		if certificate.NoiseMultiplier != c.sigma || certificate.WithoutSamples() == c.samples {
			t.Errorf("σ = %g: %+v", c.sigma, certificate)
		}
	}
}

// TestTrialsOfFewSamples: where a direction needs hardly a sample, a trial has some hundreds all the
// same, so that a poor guess of its mean rejects nothing.
func TestTrialsOfFewSamples(t *testing.T) {
	strategy := must.Get(mechanism.Params{Kind: "banded-toeplitz", Steps: 16, Bands: 4}.Make(t.Context(), nil))(t)
	for _, claim := range [][2]float64{{4, 5e-3}} {
		sampler := sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: 16, Period: 4}}
		plan := must.Get(Problem{
			Run:         accounting.Run{Sampler: sampler, Strategy: strategy, MaxExamplesPerOwner: 1},
			Epsilon:     claim[0],
			Delta:       claim[1],
			Samples:     100_000,
			CodeVersion: "test",
		}.Plan(t.Context()))(t)
		for _, candidate := range plan.Protocol.Candidates {
			for _, trial := range candidate.Trials {
				if trial.Samples > 0 && trial.Samples < 500 {
					t.Errorf("%v: a trial of %d samples", claim, trial.Samples)
				}
			}
		}
		if _, c := certify(t, plan.Protocol, 1000, 2); c.Status != accounting.Verified {
			t.Errorf("%v: %s, %s", claim, c.Status, c.Reason)
		}
	}
}

// TestOwnersNearTheLeastDrawn: where values can be drawn only at far more noise than an estimate comes
// to, the search goes back to where they can, and a noise multiplier there is verified.
func TestOwnersNearTheLeastDrawn(t *testing.T) {
	for _, c := range []struct{ steps, examples int }{{2, 3}, {1, 8}} {
		strategy := must.Get(mechanism.Params{Kind: "banded-toeplitz", Steps: c.steps, Bands: c.steps}.Make(t.Context(), nil))(t)
		sampler := sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: c.steps, MinSep: c.steps, WarmStart: true}}
		run := accounting.Run{Sampler: sampler, Strategy: strategy, MaxExamplesPerOwner: c.examples}
		plan := must.Get(Problem{Run: run, Epsilon: 6, Delta: 0.02, Samples: 30_000, CodeVersion: "test"}.Plan(t.Context()))(t)
		if _, got := certify(t, plan.Protocol, 1000, 2); got.Status != accounting.Verified || got.NoiseMultiplier > 1.4 {
			t.Errorf("%d examples: %s at σ = %g", c.examples, got.Status, got.NoiseMultiplier)
		}
	}
}

// TestOwnersWithoutSamples: where no value of an owner's examples is drawn with a largest value below
// 1, a noise multiplier is refused as one that takes too many samples.
func TestOwnersWithoutSamples(t *testing.T) {
	run := smallRun()
	run.MaxExamplesPerOwner = 30
	p := Problem{Run: run, Epsilon: 2, Delta: 0.1, NoiseMultiplier: 0.4, Samples: 1000, CodeVersion: "test"}
	if plan, err := p.Plan(t.Context()); !errors.Is(err, accounting.ErrTooFewSamples) {
		t.Errorf("%+v, %v", plan, err)
	}
}

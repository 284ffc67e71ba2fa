package verification

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"minsep/accounting"
	"minsep/accounting/ledger"
	"minsep/accounting/montecarlo"
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
	l, err := ledger.Create(t.TempDir(), p)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	c, err := Finish(context.Background(), l, unit, workers)
	if err != nil {
		t.Fatal(err)
	}
	data, err := c.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data, c
}

// TestCertifyBMinSep makes a certificate from scratch, close to the exact answer, the same for any
// units and workers.
func TestCertifyBMinSep(t *testing.T) {
	plan, err := Problem{Run: smallRun(), Epsilon: 2, Delta: 1e-3, CodeVersion: "test"}.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := plan.Protocol
	if err := CheckProofs(t.Context(), p); err != nil {
		t.Error(err)
	}
	last := &p.Candidates[len(p.Candidates)-1].Trials[0]
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

// drawn counts the samples of a plan's estimates and of its verification.
func drawn(plan *Plan) (estimates, verification uint64) {
	for _, l := range plan.Estimates {
		estimates += l.Estimates[0].Samples + l.Estimates[1].Samples
	}
	for _, c := range plan.Protocol.Candidates {
		for _, trial := range c.Trials {
			verification += trial.Samples
		}
	}
	return estimates, verification
}

// TestBudget: estimates and verification together stay within the budget, and too small a budget is
// refused.
func TestBudget(t *testing.T) {
	for _, budget := range []uint64{1000, 20_000} {
		plan, err := Problem{Run: smallRun(), Epsilon: 2, Delta: 1e-3, Samples: budget, CodeVersion: "test"}.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		estimates, verification := drawn(plan)
		if estimates == 0 || estimates > budget/3+1 || verification == 0 || estimates+verification > budget || estimates+verification < budget*9/10 {
			t.Errorf("%d and %d samples of a budget of %d", estimates, verification, budget)
		}
	}
	// Of 10 samples there is no estimate, but at least the noise multiplier whose δ is bounded
	// without any.
	plan, err := Problem{Run: smallRun(), Epsilon: 2, Delta: 1e-3, Samples: 10, CodeVersion: "test"}.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if estimates, verification := drawn(plan); estimates+verification > 10 {
		t.Errorf("%d and %d samples of a budget of 10", estimates, verification)
	}
	if _, c := certify(t, plan.Protocol, 1, 1); c.NoiseMultiplier > 1.8 || c.NoiseMultiplier < 1.4841 {
		t.Errorf("10 samples: σ = %g", c.NoiseMultiplier)
	}
	_, err = Problem{Run: smallRun(), Epsilon: 2, Delta: 1e-3, Samples: 10, NoiseMultiplier: 1.6}.Plan(t.Context())
	var few *TooFewError
	if !errors.As(err, &few) || few.Need < 10 || few.CPU <= 0 || few.Advised < few.Need {
		t.Errorf("10 samples for one noise multiplier: got %v", err)
	}
}

// plainRun has plain losses, since there are more bands than min-sep, and little is proven.
func plainRun() accounting.Run {
	run := smallRun()
	run.Strategy.Toeplitz = append(run.Strategy.Toeplitz, 0.1)
	return run
}

// TestAdvisedBudget: a budget that is too small for any trial of a noise multiplier is refused, and
// the one that the refusal names is enough.
func TestAdvisedBudget(t *testing.T) {
	p := Problem{Run: plainRun(), Epsilon: 2, Delta: 0.02, NoiseMultiplier: 2, Samples: 100, CodeVersion: "test"}
	_, err := p.Plan(t.Context())
	var few *TooFewError
	if !errors.As(err, &few) || few.Need < 2/0.02 || !strings.Contains(err.Error(), "too few samples: 100, ") {
		t.Fatalf("100 samples: got %v", err)
	}
	p.Samples = uint64(few.Advised)
	plan, err := p.Plan(t.Context())
	if err != nil {
		t.Fatalf("%d samples: %v", p.Samples, err)
	}
	certify(t, plan.Protocol, 5000, 0)
}

// TestShareOfTime: estimates stop when the time that they may take is used up, with what they know,
// and at once where none is left.
func TestShareOfTime(t *testing.T) {
	p := Problem{Run: smallRun(), Epsilon: 2, Delta: 1e-3}
	e := p.newEstimator()
	e.share.samples, e.share.seconds = 400, 0
	estimates, err := e.search(t.Context(), 1.6, 0.75e-3, NoiseEstimate{})
	if err != nil || len(estimates) == 0 || e.drawn > 400 {
		t.Errorf("400 samples: %d noise multipliers, %d samples, %v", len(estimates), e.drawn, err)
	}
	e = p.newEstimator()
	e.share.seconds = 1e-9
	var few *TooFewError
	if estimates, err := e.search(t.Context(), 1.6, 0.75e-3, NoiseEstimate{}); !errors.As(err, &few) || estimates != nil || e.drawn > 512 {
		t.Errorf("no time: %d noise multipliers, %d samples, %v", len(estimates), e.drawn, err)
	}
}

// TestSpend: a budget in time becomes samples before there is a protocol, and what the estimates
// leave is used up; each trial accepts what is worth its samples, and the main candidate gets most
// of them.
func TestSpend(t *testing.T) {
	const time = 2 * time.Second
	plan, err := Problem{Run: smallRun(), Epsilon: 2, Delta: 1e-3, CPUTime: time, CodeVersion: "test"}.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := plan.Protocol
	bought := time.Seconds() / plan.CPU
	estimates, total := drawn(plan)
	main := p.Candidates[0].Trials[0].Samples + p.Candidates[0].Trials[1].Samples
	if float64(estimates+total) > bought*1.01 || float64(estimates) > bought/3 {
		t.Errorf("%d and %d samples, where the time is for %.0f", estimates, total, bought)
	}
	if 2*main < total {
		t.Errorf("%d samples of %d for the main candidate", main, total)
	}
	if first := p.Candidates[0].Trials; first[0].Samples > 0 && first[1].Samples > 0 && first[0].Accept == first[1].Accept {
		t.Errorf("both directions accept alike: %+v", first)
	}
	_, err = Problem{Run: smallRun(), Epsilon: 2, Delta: 1e-3, CPUTime: time, Samples: 1}.Plan(t.Context())
	var bad *ParamError
	if !errors.As(err, &bad) {
		t.Errorf("both a time and samples: got %v", err)
	}
}

// TestWatch: those who wait hear of every noise multiplier that is tried, and how far its samples
// are.
func TestWatch(t *testing.T) {
	var texts []string
	drawn := map[string]bool{}
	_, err := Problem{Run: smallRun(), Epsilon: 2, Delta: 1e-3, Samples: 1000, CodeVersion: "test", Watch: func(p Phase) {
		if len(texts) == 0 || texts[len(texts)-1] != p.Text {
			texts = append(texts, p.Text)
		}
		if p.Done > 0 && p.Done <= p.Of {
			drawn[p.Text] = true
		}
	}}.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if len(texts) > 0 && strings.HasPrefix(texts[0], "looking for a σ that needs no samples") {
		texts = texts[1:]
	}
	if len(texts) < 3 || !strings.HasPrefix(texts[0], "estimating σ: candidate 1") || !strings.Contains(strings.Join(texts, "\n"), ", δ above ") || texts[len(texts)-1] != "tables" {
		t.Errorf("told of %q", texts)
	}
	if !drawn[texts[0]] {
		t.Errorf("no progress of %q", texts[0])
	}
}

// TestProofsNeedNoSamples: cyclic Poisson by PLD.
func TestProofsNeedNoSamples(t *testing.T) {
	run := smallRun()
	run.Sampler = sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.25, Steps: 64, MinSep: 4}}
	plan, err := Problem{Run: run, Epsilon: 2, Delta: 1e-3, CodeVersion: "test"}.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	p := plan.Protocol
	_, c := certify(t, p, 1, 1)
	if c.Method != accounting.PLD || math.Abs(c.NoiseMultiplier-1.72804) > 1e-4 {
		t.Errorf("%s: σ = %g, want 1.72804", c.Method, c.NoiseMultiplier)
	}
}

// TestPlainValues verifies by plain losses at a large δ, with enough noise and with too little.
func TestPlainValues(t *testing.T) {
	const epsilon, delta = 1, 0.05
	th, samples, err := accounting.Claim{Delta: delta}.Samples(0.8*delta, []float64{1})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		sigma    float64
		verified bool
	}{{1.6, true}, {0.8, false}} {
		p := &accounting.Protocol{Format: 1, Run: smallRun(), CodeVersion: "test", KernelID: montecarlo.KernelID(),
			Points:     []accounting.Point{{Epsilon: epsilon, Delta: delta, Thresholds: th}},
			Candidates: []accounting.Candidate{{NoiseMultiplier: c.sigma}}}
		for _, d := range montecarlo.Directions {
			p.Candidates[0].Trials = append(p.Candidates[0].Trials,
				accounting.Trial{Direction: d, Method: accounting.MonteCarlo, Bound: 1, Samples: samples[0], Values: []byte("{}")})
		}
		l, err := ledger.Create(t.TempDir(), p)
		if err != nil {
			t.Fatal(err)
		}
		_, err = Finish(context.Background(), l, 5000, 0)
		if c.verified && err != nil || !c.verified && !errors.Is(err, accounting.ErrNotVerified) {
			t.Errorf("σ = %g: got %v, want verified = %t", c.sigma, err, c.verified)
		}
		l.Close()
	}
}

// TestAdviceHolds: noise multipliers that few samples reject are verified by as many as the error
// says. Samples differ between protocols and between kernels, so it is tried with several: of 20
// advices at 2.5 standard errors, half are followed in vain with probability below 1e-9 if each is
// with at most 0.05.
func TestAdviceHolds(t *testing.T) {
	verify := func(samples uint64, version string, earlier []accounting.Earlier) (*accounting.Protocol, error) {
		plan, err := Problem{Run: smallRun(), Epsilon: 2, Delta: 1e-3, NoiseMultiplier: 1.5, Samples: samples, Earlier: earlier, CodeVersion: version}.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		l, err := ledger.Create(t.TempDir(), plan.Protocol)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		_, err = Finish(t.Context(), l, 10_000, 0)
		return plan.Protocol, err
	}
	advices, held, enough := 0, 0, 7
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
		if advices == 0 {
			if cpu, err := SampleCPU(t.Context(), p, 0); err != nil || cpu < 0 || cpu > 1 {
				t.Errorf("a sample takes %g s, %v", cpu, err)
			}
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

// TestPlainPlan: where nothing is tilted, plain losses are estimated and verified, if δ is large
// enough.
func TestPlainPlan(t *testing.T) {
	run := smallRun()
	run.Sampler.Truncation = &sampling.Truncation{MaxBatchSize: 30}
	run.Examples = 300
	plan, err := Problem{Run: run, Epsilon: 2, Delta: 0.02, Samples: 100_000, CodeVersion: "test"}.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, c := certify(t, plan.Protocol, 5000, 0)
	if c.NoiseMultiplier < plan.Estimate {
		t.Errorf("σ = %g is below the estimate %g", c.NoiseMultiplier, plan.Estimate)
	}
	_, err = Problem{Run: run, Epsilon: 2, Delta: 1e-8, CodeVersion: "test"}.Plan(t.Context())
	var few *TooFewError
	if !errors.As(err, &few) || few.Need < 1e9 || few.Each <= 0 {
		t.Errorf("δ = 1e-8 by plain losses: got %v", err)
	}
	if _, err := NewWorker(&accounting.Protocol{}, 0, 0); err == nil {
		t.Error("a worker for nothing")
	}
}

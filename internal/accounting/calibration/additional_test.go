package calibration_test

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/accounting/calibration"
	"minsep/internal/ledger"
	"minsep/internal/montecarlo"
	"minsep/internal/must"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

// finish draws the samples of a protocol.
func finish(t *testing.T, p *accounting.Protocol) (*accounting.Certificate, error) {
	t.Helper()
	l := must.Get(ledger.Create(t.TempDir(), p))(t)
	return calibration.Finish(context.Background(), l, 1<<14, 1)
}

// logBinomialTail is ln Pr[Binom(n, p) ≤ k] by its terms.
func logBinomialTail(n uint64, p float64, k uint64) float64 {
	total := math.Inf(-1)
	nf := float64(n)
	lg := func(x float64) float64 { v, _ := math.Lgamma(x); return v }
	for i := range k + 1 {
		x := float64(i)
		term := lg(nf+1) - lg(x+1) - lg(nf-x+1) + x*math.Log(p) + (nf-x)*math.Log1p(-p)
		if term > total {
			total, term = term, total
		}
		total += math.Log1p(math.Exp(term - total))
	}
	return total
}

// checkShared holds the failure probabilities of a protocol against those of trials whose values
// are 0 or M, which are the worst there are, and the sum of all of them against every point.
func checkShared(t *testing.T, p *accounting.Protocol) {
	t.Helper()
	sum := 0.0
	for _, pt := range p.Points {
		sum += pt.FailureProbability
	}
	for _, e := range p.Earlier {
		sum += e.FailureProbability
	}
	for _, pt := range p.Points {
		if pt.Verify+sum*(1-pt.Verify) > pt.Delta*(1+1e-12) {
			t.Errorf("point (%g, %g): δ_v = %g leaves no room for the failure probability of all points, %g", pt.Epsilon, pt.Delta, pt.Verify, sum)
		}
	}
	for _, candidate := range p.Candidates {
		for _, trial := range candidate.Trials {
			pt, cost := p.Points[trial.Point], 0.0
			if trial.Truncation != nil {
				cost = trial.Truncation.Cost
			}
			if trial.Samples == 0 {
				if trial.Bound+cost > pt.Verify*(1+1e-12) {
					t.Errorf("point %d: the bound %g is above δ_v = %g", trial.Point, trial.Bound+cost, pt.Verify)
				}
				continue
			}
			accept := trial.Accept
			if accept == 0 {
				accept = pt.Accept
			}
			if verify := (pt.Verify - cost) / trial.Bound; verify < 1 {
				q := math.Exp(logBinomialTail(trial.Samples, verify, uint64(accept/trial.Bound*float64(trial.Samples))))
				if q > pt.FailureProbability {
					t.Errorf("point %d: values of 0 and M = %g are accepted with probability %g, the protocol says %g", trial.Point, trial.Bound, q, pt.FailureProbability)
				}
			}
		}
	}
}

// TestAlsoEpsilonHolds: no further point of a certificate claims less than the truth by
// enumeration, most claim little more, and every point pays for the failures of all.
func TestAlsoEpsilonHolds(t *testing.T) {
	rng := rand.New(rand.NewPCG(2026, 11))
	points, tight, sampled := 0, 0, 0
	for i := 0; points < 16 || sampled < 4; i++ {
		c := randomCase(rng, 1+i%2, 2)
		if method, err := c.run.Method(); err != nil || i%8 > 0 && calibration.WithoutSamples(method) {
			continue // samples are what is tested
		}
		c.sigma = max(c.sigma, 0.25)
		c.epsilon = max(c.epsilon, 0.2)
		truth, fault := c.truth(func(m mixture) (float64, float64, float64) { return m.quadrature(c.epsilon) })
		delta := 1.25 * (max(truth[0], truth[1]) + fault)
		if delta < 1e-5 || delta > 0.3 {
			continue
		}
		also := []float64{c.epsilon * (0.3 + 0.6*rng.Float64()), c.epsilon * (1.1 + rng.Float64())}
		problem := calibration.Problem{Run: c.run, Epsilon: c.epsilon, Delta: delta, AlsoEpsilon: also, NoiseMultiplier: c.sigma, Samples: 100_000, Workers: 1}
		plan, err := problem.Plan(t.Context())
		var bad *calibration.ParamError
		if errors.Is(err, accounting.ErrTooFewSamples) || errors.Is(err, calibration.ErrNotPrivate) || errors.As(err, &bad) {
			continue // a δ above one half, or one that so few samples do not reach
		}
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		checkShared(t, plan.Protocol)
		if err := calibration.CheckProofs(t.Context(), plan.Protocol); err != nil {
			t.Errorf("%v: %v", c, err)
		}
		certificate, err := finish(t, plan.Protocol)
		if errors.Is(err, accounting.ErrNotVerified) {
			continue
		}
		if err != nil {
			t.Fatalf("%v: %v", c, err)
		}
		for _, pt := range certificate.Points[1:] {
			truth, fault := c.truth(func(m mixture) (float64, float64, float64) { return m.quadrature(pt.Epsilon) })
			worst := max(truth[0], truth[1])
			if worst-fault > pt.Delta {
				t.Errorf("%v: (%g, %g) is claimed, the truth is %g ± %.1g", c, pt.Epsilon, pt.Delta, worst, fault)
			}
			points++
			if pt.Delta <= max(1.8*worst, 1.01e-3*delta) {
				tight++
			}
			if pt.Directions[0].Samples+pt.Directions[1].Samples > 0 {
				sampled++
			}
		}
	}
	t.Logf("%d points, %d at most 1.8 times the truth, %d with samples", points, tight, sampled)
	if tight < points*3/5 {
		t.Errorf("of %d points only %d are near the truth", points, tight)
	}
}

// TestAlsoEpsilonSearch certifies further points at the noise multiplier of a search, and holds
// them against losses drawn without tilting.
func TestAlsoEpsilonSearch(t *testing.T) {
	run := accounting.Run{Sampler: sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 1. / 13, Steps: 64, MinSep: 4, WarmStart: true}},
		Strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 64, Toeplitz: []float64{1, 0.5}}, MaxExamplesPerOwner: 1}
	also := []float64{1, 2.5, 6}
	earlier := []accounting.Earlier{{ProtocolSHA256: string(slices.Repeat([]byte("ab"), 32)), FailureProbability: 1e-7}}
	problem := calibration.Problem{Run: run, Epsilon: 2, Delta: 1e-3, AlsoEpsilon: also, Samples: 30_000, Earlier: earlier, Workers: 1}
	plan := must.Get(problem.Plan(t.Context()))(t)
	checkShared(t, plan.Protocol)
	certificate, err := finish(t, plan.Protocol)
	if err != nil {
		t.Fatal(err)
	}
	if len(certificate.Points) != 1+len(also) {
		t.Fatalf("points: %+v", certificate.Points)
	}
	all := earlier[0].FailureProbability
	for _, pt := range plan.Protocol.Points {
		all += pt.FailureProbability
	}
	if got := certificate.Points[0].FailureProbability; math.Abs(got-all) > 1e-9*all {
		t.Errorf("the certificate counts a failure probability of %g, all points and the earlier protocol have %g", got, all)
	}
	for i, pt := range certificate.Points {
		t.Logf("(%g, %g), failure probability %g", pt.Epsilon, pt.Delta, pt.FailureProbability)
		if i > 0 && pt.Epsilon != also[i-1] {
			t.Errorf("point %d is for ε = %g", i, pt.Epsilon)
		}
		if pt.FailureProbability != certificate.Points[0].FailureProbability || pt.FailureProbability < 1e-7 {
			t.Errorf("failure probability %g of point %d, %g of the first", pt.FailureProbability, i, certificate.Points[0].FailureProbability)
		}
		for _, d := range montecarlo.Directions {
			s := must.Get(montecarlo.NewSampler(run.Loss(certificate.NoiseMultiplier), d, stream.PublicKey("independent", nil)))(t)
			const samples = 1 << 15
			losses := make([]float64, samples)
			s.Losses(losses, 0)
			sum := 0.0
			for _, l := range losses {
				sum += max(0, -math.Expm1(pt.Epsilon-l))
			}
			if mean := sum / samples; mean-6*math.Sqrt(mean/samples) > pt.Delta {
				t.Errorf("ε = %g, direction %s: δ = %g is claimed, plain samples give %g", pt.Epsilon, d, pt.Delta, mean)
			}
		}
	}
	if at := certificate.Points[3].Delta; at < 1e-6 || at > 1.1e-6 {
		t.Errorf("δ at ε = 6 is %g, want a thousandth of the claim's", at)
	}
	if plan.Protocol.Candidates[0].NoiseMultiplier > 1.015*plan.Estimate {
		t.Errorf("σ = %g for an estimate of %g: further points cost too much noise", plan.Protocol.Candidates[0].NoiseMultiplier, plan.Estimate)
	}
	// A false point alone is left out, and the others stand.
	other := *plan.Protocol
	other.Points = slices.Clone(other.Points)
	for c := range other.Candidates {
		other.Candidates[c].Trials = slices.Clone(other.Candidates[c].Trials)
	}
	other.Points[1].Delta /= 2
	other.Points[1].Verify = other.Points[1].Delta * 0.9
	other.Points[1].Accept = other.Points[1].Verify * 0.9
	for c := range other.Candidates {
		for i := range other.Candidates[c].Trials {
			if trial := &other.Candidates[c].Trials[i]; trial.Point == 1 && trial.Samples > 0 {
				trial.Accept = accounting.LargestAccept(trial.Samples, trial.Bound, other.Points[1].Verify, other.Points[1].FailureProbability)
			}
		}
	}
	certificate, err = finish(t, &other)
	if err != nil || len(certificate.Points) != len(also) || certificate.Points[1].Epsilon != also[1] {
		t.Errorf("with half of δ at ε = 1: %v, %+v", err, certificate)
	}
}

// TestAlsoEpsilonTooSmall: an ε whose δ would be above one half has no point, and the others stay,
// with samples and without.
func TestAlsoEpsilonTooSmall(t *testing.T) {
	for _, c := range []struct {
		prob, sigma float64
		bands       []float64
		sampled     bool
	}{{0.5, 1, []float64{1}, false}, {0.2, 0.5, []float64{1, 0.5}, true}} {
		run := accounting.Run{Sampler: sampling.Spec{BMinSep: &sampling.BMinSep{Prob: c.prob, Steps: 12, MinSep: 4, WarmStart: true}},
			Strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 12, Toeplitz: c.bands}, MaxExamplesPerOwner: 1}
		if !c.sampled {
			run.Sampler = sampling.Spec{Poisson: &sampling.Poisson{Prob: c.prob, Steps: 12}}
		}
		problem := calibration.Problem{Run: run, Epsilon: 12, Delta: 1e-2, AlsoEpsilon: []float64{0.01, 14, 0.05}, NoiseMultiplier: c.sigma, Samples: 20_000, Workers: 1}
		plan, err := problem.Plan(t.Context())
		if err != nil {
			t.Errorf("prob %v: %v", c.prob, err)
			continue
		}
		checkShared(t, plan.Protocol)
		if p := plan.Protocol; len(p.Points) != 2 || p.Points[1].Epsilon != 14 {
			t.Errorf("prob %v: points %+v", c.prob, p.Points)
		}
		if c, err := finish(t, plan.Protocol); err != nil || len(c.Points) != 2 {
			t.Errorf("%v, %+v", err, c)
		}
	}
}

// TestAlsoEpsilonFaults: every fault has its name.
func TestAlsoEpsilonFaults(t *testing.T) {
	run := accounting.Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.1, Steps: 4}},
		Strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 4, Toeplitz: []float64{1}}, MaxExamplesPerOwner: 1}
	for _, also := range [][]float64{{-1}, {math.Inf(1)}, {2, 2}, {1}, make([]float64, 17)} {
		_, err := calibration.Problem{Run: run, Epsilon: 1, Delta: 1e-3, AlsoEpsilon: also}.Plan(t.Context())
		var bad *calibration.ParamError
		if !errors.As(err, &bad) || bad.Param != "also epsilon" {
			t.Errorf("%v: %v", also, err)
		}
	}
	plan := must.Get(calibration.Problem{Run: run, Epsilon: 1, Delta: 1e-3, AlsoEpsilon: []float64{0.5, 0}}.Plan(t.Context()))(t)
	checkShared(t, plan.Protocol)
	certificate, err := finish(t, plan.Protocol)
	if err != nil || len(certificate.Points) != 3 || certificate.Points[0].FailureProbability != 0 {
		t.Errorf("%v, %+v", err, certificate)
	}
	pq, qp, err := run.Prove(certificate.NoiseMultiplier, 0)
	if worst := max(pq, qp); err != nil || certificate.Points[2].Delta < worst || certificate.Points[2].Delta > 1.01*worst {
		t.Errorf("δ at 0 is claimed as %g, proven is %g (%v)", certificate.Points[2].Delta, worst, err)
	}
}

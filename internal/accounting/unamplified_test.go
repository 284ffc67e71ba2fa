package accounting

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/bisect"
	"minsep/internal/must"
	"minsep/mechanism"
	"minsep/sampling"
)

// oneStep integrates both divergences of f = 1-q + q exp(μz - μ²/2), z normal: those of one step in
// which an owner takes part with probability q. It looks for the point where f is e^±ε, and takes
// Simpson's rule on its side, on which the value is not 0.
func oneStep(q, mu, epsilon float64) (pq, qp float64) {
	excess := func(z float64) float64 { return q * math.Expm1(mu*z-mu*mu/2) } // f - 1
	integrate := func(from, to float64, value func(z float64) float64) (sum float64) {
		const points = 4000
		h := (to - from) / points
		for i := range points + 1 {
			weight := []float64{2, 4}[i%2]
			if i == 0 || i == points {
				weight = 1
			}
			z := from + h*float64(i)
			sum += weight * max(0, value(z)) * math.Exp(-z*z/2)
		}
		return sum * h / 3 / math.Sqrt(2*math.Pi)
	}
	const far = 60
	if kink, _ := bisect.Between(-far, far, 0, func(z float64) bool { return excess(z) < math.Expm1(epsilon) }); kink < far-1 {
		pq = integrate(kink, min(far, max(kink, mu)+12), func(z float64) float64 { return excess(z) - math.Expm1(epsilon) })
	}
	if kink, _ := bisect.Between(-far, far, 0, func(z float64) bool { return excess(z) < math.Expm1(-epsilon) }); kink > -far+1 {
		qp = integrate(max(-far, min(kink, 0)-12), kink, func(z float64) float64 { return -math.Exp(epsilon)*excess(z) - math.Expm1(epsilon) })
	}
	return pq, qp
}

// TestUnamplifiedOneStep: of one step the bound is the divergence itself, in both directions: no
// less, and no more than by rounding. Drawn are q near 0 and 1, much and little noise, and ε near
// -ln(1-q), from which on H(Q,P) is 0.
func TestUnamplifiedOneStep(t *testing.T) {
	rng := rand.New(rand.NewPCG(2026, 11))
	pick := func(x ...float64) float64 { return x[rng.IntN(len(x))] }
	seen := [2]int{}
	for range 300 {
		q := pick(1, 1-1e-3, 0.9, 0.5, rng.Float64(), 0.01, 1e-4)
		mu := pick(0.05, 0.3, 1, 3, 8, math.Exp(-3+5*rng.Float64()))
		epsilon := pick(0, 1e-3, rng.Float64(), 1, 4*rng.Float64(), 20*rng.Float64())
		if all := -math.Log1p(-q); rng.IntN(3) == 0 && all < 20 {
			epsilon = all * pick(1-1e-3, 0.99, 0.5, rng.Float64(), 1.01)
		}
		u := unamplified{sensitivity: mu, logNever: math.Log1p(-q)}
		pq, qp := u.delta(1, epsilon)
		wantPQ, wantQP := oneStep(q, mu, epsilon)
		for i, x := range []struct{ got, want float64 }{{pq, wantPQ}, {qp, wantQP}} {
			if x.want < 1e-60 { // the integral ends before
				continue
			}
			if seen[i]++; !(x.got >= x.want*(1-1e-7)-1e-15 && x.got <= x.want*(1+1e-7)+1e-14*(1+epsilon)) {
				t.Errorf("q = %g, μ = %g, ε = %g, direction %d: %g, by the integral %g", q, mu, epsilon, i, x.got, x.want)
			}
		}
	}
	if seen[0] < 200 || seen[1] < 80 {
		t.Errorf("only %d cases are above 0", seen)
	}
}

// TestUnamplifiedFar: bounds hold where numbers end, and none is 0 or no number.
func TestUnamplifiedFar(t *testing.T) {
	for _, q := range []float64{1, 1e-9, 0.3} {
		for _, epsilon := range []float64{0, 1e-12, 1, 800, 1e5} {
			for _, sigma := range []float64{1e-6, 1, 1e6} {
				u := unamplified{sensitivity: 1, logNever: math.Log1p(-q)}
				pq, qp := u.delta(sigma, epsilon)
				if !(pq >= leastUnamplified && pq <= q*(1+1e-12)) || !(qp >= 0 && qp <= 1) {
					t.Errorf("q = %g, ε = %g, σ = %g: %g and %g", q, epsilon, sigma, pq, qp)
				}
				if more, _ := u.delta(1.1*sigma, epsilon); more > pq {
					t.Errorf("q = %g, ε = %g: %g at σ = %g, and %g at more", q, epsilon, pq, sigma, more)
				}
			}
		}
	}
}

// TestUnamplifiedCalibrate: the noise multiplier that is found proves δ, and hardly less does. With
// all taking part once it is that of the Gaussian mechanism. Where an owner takes part with a
// probability of at most δ there is none.
func TestUnamplifiedCalibrate(t *testing.T) {
	banded := func(steps int, c ...float64) *mechanism.Strategy {
		return &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: steps, Toeplitz: c}
	}
	of := func(prob float64, minSep, examples int, strategy *mechanism.Strategy) Run {
		return Run{Sampler: sampling.Spec{BMinSep: &sampling.BMinSep{Prob: prob, Steps: strategy.Steps, MinSep: minSep, WarmStart: true}}, Strategy: strategy, MaxExamplesPerOwner: examples}
	}
	pair := banded(8, 1, 0.5)
	for _, c := range []struct {
		run         Run
		sensitivity float64
	}{
		{of(1, 8, 1, pair), math.Sqrt(1.25)},
		{of(1, 4, 1, pair), math.Sqrt(2.5)},
		{of(1, 4, 3, pair), 3 * math.Sqrt(2.5)},
		{of(1, 1, 1, pair), math.Sqrt(1 + 7*1.5*1.5)},
	} {
		for _, delta := range []float64{1e-2, 1e-5, 1e-12} {
			got := must.Get(c.run.Calibrate(t.Context(), 1, delta))(t)
			want := must.Get(GaussianNoiseMultiplier(1, delta, c.sensitivity))(t)
			if got < want || got > want*(1+1e-8) {
				t.Errorf("%+v at δ = %g: %+v, want %g", c.run.Sampler.BMinSep, delta, got, want)
			}
		}
	}
	once := of(0.01, 8, 2, pair) // both examples take part at all with probability .144
	u, ok, err := once.unamplified()
	one := 8 * 0.01 / 1.07
	if want := 1 - (1-one)*(1-one); err != nil || !ok || u.prob() < want || u.prob() > want*(1+1e-7) {
		t.Errorf("two examples take part with probability %g, want %g, %t, %v", u.prob(), want, ok, err)
	}
	got := must.Get(once.Calibrate(t.Context(), 1, 1e-5))(t)
	pq, qp, err := once.Prove(got, 1)
	if d := max(pq, qp); err != nil || d > 1e-5 || d < 0.999999e-5 {
		t.Errorf("δ is %g at %+v, %v", d, got, err)
	}
	all, err := GaussianNoiseMultiplier(1, 1e-5, 2*math.Sqrt(1.25))
	if err != nil || got > 0.8*all {
		t.Errorf("%g, where %g is for those who take part for sure, %v", got, all, err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if _, err := once.Calibrate(stopped, 1, 1e-5); !errors.Is(err, context.Canceled) {
		t.Errorf("a search that was stopped: %v", err)
	}
	for _, prob := range []float64{1e-6, 1e-9} {
		rare := of(prob, 8, 1, pair) // q is some 8 times as much
		if got, err := rare.Calibrate(t.Context(), 1, 1e-5); !errors.Is(err, ErrNoProof) {
			t.Errorf("p = %g, below δ: %+v, %v", prob, got, err)
		}
	}
	cut := once
	cut.MaxExamplesPerOwner, cut.Examples, cut.Sampler.Truncation = 1, 1000, &sampling.Truncation{MaxBatchSize: 20}
	var refused *RefusedError
	if _, _, err := cut.Prove(1, 1); !errors.As(err, &refused) {
		t.Errorf("the pair of truncated batches: %v", err)
	}
}

// TestUnamplifiedRotation: no pattern has more than the sensitivity of rotation, and two steps with
// columns that are nearly alike, the last and the first of a period, have hardly less.
func TestUnamplifiedRotation(t *testing.T) {
	rng := rand.New(rand.NewPCG(2026, 13))
	norm := func(s *mechanism.Strategy, x []int) float64 {
		square, sum := 0.0, make([]float64, s.Steps)
		for _, j := range x {
			column, scale := s.FirstColumn(nil), 1.0
			if s.Normalized {
				scale = 1 / s.ColumnNorms()[j]
			}
			for i := j; i < min(s.Steps, j+len(column)); i++ {
				sum[i] += column[i-j] * scale
			}
		}
		for _, v := range sum {
			square += v * v
		}
		return math.Sqrt(square)
	}
	for range 200 {
		period := 1 + rng.IntN(4)
		steps := period + rng.IntN(2*period+1)
		column := []float64{1}
		for range rng.IntN(min(period, steps)) {
			column = append(column, rng.Float64())
		}
		s := &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: steps, Toeplitz: column, Normalized: rng.IntN(2) == 0}
		r := Run{Sampler: sampling.Spec{Rotation: &sampling.Rotation{Steps: steps, EpochSteps: period}}, Strategy: s, MaxExamplesPerOwner: 1}
		got := must.Get(r.sensitivity())(t)
		patterns := [][]int{nil}
		for first := 0; first < steps; first += period {
			var longer [][]int
			for _, x := range patterns {
				for j := first; j < min(steps, first+period); j++ {
					longer = append(longer, append(x[:len(x):len(x)], j))
				}
			}
			patterns = longer
		}
		for _, x := range patterns {
			if is := norm(s, x); is > got.Value*(1+1e-12) {
				t.Errorf("%d steps in periods of %d, column %v: steps %v have the norm %g, the sensitivity is %g", steps, period, column, x, is, got.Value)
			}
		}
	}
	alike := make([]float64, 20)
	for i := range alike {
		alike[i] = 1
	}
	for periods := range 3 {
		s := &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 20*periods + 20, Toeplitz: alike}
		r := Run{Sampler: sampling.Spec{Rotation: &sampling.Rotation{Steps: s.Steps, EpochSteps: 20}}, Strategy: s, MaxExamplesPerOwner: 1}
		got, err := r.sensitivity()
		if want := math.Sqrt(20 * (1 + 3*float64(periods))); err != nil || math.Abs(got.Value/want-1) > 1e-12 {
			t.Errorf("%d periods more: %+v, want %g, %v", periods, got, want, err)
		}
		if is := norm(s, []int{19, 20}); periods == 1 && got.Value > 1.02*is {
			t.Errorf("%g, where two steps have %g", got.Value, is)
		}
	}
}

// TestLargestParticipation: with independent noise the sensitivity of a scheme is the root of how
// often an example takes part at most.
func TestLargestParticipation(t *testing.T) {
	for _, c := range []struct {
		sampler sampling.Spec
		times   float64
	}{
		{sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 7, MinSep: 3}}, 3},
		{sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 6, MinSep: 3}}, 2},
		{sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 3, MinSep: 9}}, 1},
		{sampling.Spec{Poisson: &sampling.Poisson{Prob: 0.1, Steps: 4}}, 4},
		{sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: 5, Period: 2}}, 3},
		{sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: 5, Period: 3}}, 2},
		{sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: 5, Period: 5}}, 1},
		{sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: 8, MinSep: 2, EpochSteps: 4}}, 2},
		{sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: 9, MinSep: 2, EpochSteps: 4}}, 3},
		{sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: 4, MinSep: 2, EpochSteps: 9}}, 1},
	} {
		r := Run{Sampler: c.sampler, MaxExamplesPerOwner: 1}
		r.Strategy = mechanism.Identity(r.steps())
		got, err := r.sensitivity()
		if err != nil || math.Abs(got.Value-math.Sqrt(c.times)) > 1e-12 {
			t.Errorf("%+v: %+v, %v, want the root of %g", c.sampler.Scheme(), got, err, c.times)
		}
	}
}

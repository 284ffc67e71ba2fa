package accounting

import (
	"errors"
	"math"
	"math/big"
	"testing"
)

// samplesAt allocates samples to trials of one mean, one for each bound.
func samplesAt(c Claim, mean float64, bounds ...float64) (th Thresholds, samples []uint64, err error) {
	var goals []Goal
	for _, bound := range bounds {
		goals = append(goals, Goal{Bound: bound, Mean: mean})
	}
	th, tests, err := c.Allocate(goals)
	for _, test := range tests {
		samples = append(samples, test.Samples)
	}
	return th, samples, err
}

// TestPublishedSampleCounts: the figures of the design for δ = 1.301e-8 and values in [0,1], and
// s ≈ 150 M/δ at δ/2, 1100 at .8 δ and 4900 at .9 δ for values of at most M (F5).
func TestPublishedSampleCounts(t *testing.T) {
	const delta, small = 1.301e-8, 1.7e-7
	for _, c := range []struct{ bound, accept, want float64 }{
		{1, 0, 1.7e9}, {1, 0.5, 1.2e10}, {1, 0.9, 3.8e11},
		{small, 0.5, 150 * small / delta}, {small, 0.8, 1100 * small / delta}, {small, 0.9, 4900 * small / delta},
	} {
		th, samples, err := samplesAt(Claim{Delta: delta}, c.accept*delta, c.bound)
		if err != nil || math.Abs(float64(samples[0])/c.want-1) > 0.1 {
			t.Errorf("M = %g, δ' = %g δ: %d samples, want about %g, %v", c.bound, c.accept, samples[0], c.want, err)
		}
		q := FailureProbability(samples[0], c.bound, th.Accept, th.Verify)
		if total := (Thresholds{th.Accept, th.Verify, q}).Total(); total > delta {
			t.Errorf("M = %g, δ' = %g δ: total %g exceeds δ", c.bound, c.accept, total)
		}
		if q := FailureProbability(samples[0]*99/100, c.bound, th.Accept, th.Verify); q <= th.FailureProbability {
			t.Errorf("M = %g, δ' = %g δ: 1 %% fewer samples would do", c.bound, c.accept)
		}
	}
}

// TestDivergence against series in the gap for close arguments, and the definition for others.
func TestDivergence(t *testing.T) {
	for _, b := range []float64{1e-12, 1e-8, 1e-3, 0.3} {
		for _, gap := range []float64{1e-4, 1e-2, 0.1} {
			a := b * (1 - gap)
			// kl(a,b) = Σ over both outcomes of p g(r), g(r) = 1/r-1 + ln r … by its integral:
			// ∫_a^b (x-a)/(x(1-x)) dx.
			want, n := 0.0, 2000
			for i := range n {
				x := a + (float64(i)+0.5)*(b-a)/float64(n)
				want += (x - a) / (x * (1 - x)) * (b - a) / float64(n)
			}
			got := divergence(a, b)
			if got > want*(1+1e-6) || got < want*(1-2e-6) {
				t.Errorf("kl(%g, %g) = %g, want %g", a, b, got, want)
			}
		}
	}
	if got := divergence(0, 0.5); got > math.Ln2 || got < math.Ln2*(1-1e-9) {
		t.Errorf("kl(0, ½) = %g", got)
	}
	if divergence(0.2, 0.1) != 0 || divergence(0.2, 0.2) != 0 || !math.IsInf(divergence(0.2, 1), 1) {
		t.Error("kl at its ends")
	}
}

// TestSamples: trials share one failure probability, δ is used up, and a trial whose values are at most
// δ_v takes no samples.
func TestSamples(t *testing.T) {
	const delta = 1e-6
	bounds := []float64{1e-4, 5e-5, 0, 9e-7} // the last two are at most δ_v
	for _, c := range []Claim{{Delta: delta}, {Delta: delta, Earlier: 1e-8}} {
		least := uint64(0)
		for _, part := range []float64{0, 0.3, 0.8} {
			th, samples, err := samplesAt(c, part*delta, bounds...)
			if err != nil {
				t.Fatal(err)
			}
			q := th.FailureProbability + c.Earlier
			if total := th.Verify + q*(1-th.Verify); !(math.Abs(th.Accept-part*delta) < 1e-3*delta) || total > delta || total < delta*(1-1e-6) {
				t.Errorf("%+v: %+v comes to %g", c, th, total)
			}
			for i, bound := range bounds {
				if q := FailureProbability(samples[i], bound, part*delta, th.Verify); q > th.FailureProbability {
					t.Errorf("%+v, trial %d: q = %g above %g", c, i, q, th.FailureProbability)
				}
			}
			if samples[0] <= least || samples[2] != 0 || samples[3] != 0 {
				t.Errorf("%+v, at most %g of δ: %d samples", c, part, samples)
			}
			least = samples[0]
		}
	}
	th, samples, err := samplesAt(Claim{Delta: delta}, 0, 1e-7, 0)
	if err != nil || samples[0] != 0 || samples[1] != 0 {
		t.Errorf("bounds below δ: %+v %v %v", th, samples, err)
	}
	for rest := 1e-2; err == nil; rest /= 1.1 { // means ever nearer to δ
		if _, samples, err = samplesAt(Claim{Delta: delta}, (1-rest)*delta, 1); err == nil && samples[0] > maxSamples {
			t.Errorf("%d samples at %g of δ, more than a verification may have", samples[0], 1-rest)
		}
	}
	if !errors.Is(err, ErrTooFewSamples) {
		t.Errorf("a mean next to δ: %v", err)
	}
}

// TestFailureProbabilityIsRoundedUp holds it against powers of rational numbers: it is never below
// them, and hardly above. It is never below the probability that the mean of two values, 0 and the
// bound, is accepted either, by the binomial distribution of a mean of δ_v.
func TestFailureProbabilityIsRoundedUp(t *testing.T) {
	for _, n := range []int{1, 3, 20, 150} {
		for _, verify := range []float64{0.01, 0.1, 0.5, 0.9} {
			accepted, one := 0.0, math.Pow(1-verify, float64(n)) // the probability of k ones
			for k := range n {
				accepted += one
				one *= float64(n-k) / float64(k+1) * verify / (1 - verify)
				accept := float64(k) / float64(n)
				if q := FailureProbability(uint64(n), 7, 7*accept, 7*verify); accept < verify && q < accepted*(1-1e-12) {
					t.Errorf("%d samples, accept %v, verify %v: %v, and %v of two values", n, accept, verify, q, accepted)
				}
			}
		}
	}
	power := func(base float64, n uint64) *big.Float {
		p := big.NewFloat(1).SetPrec(400)
		for range n {
			p.Mul(p, big.NewFloat(base))
		}
		return p
	}
	for _, n := range []uint64{2, 10, 100, 1000, 1600} {
		for _, c := range []struct {
			accept, verify float64
			want           *big.Float
		}{
			{0, 1. / 4, power(3./4, n)},
			{0, 1. / 1024, power(1023./1024, n)},
			{0, 0x1p-20, power(1-0x1p-20, n)},
			{1. / 2, 3. / 4, power(3./4, n/2)},
		} {
			for _, bound := range []float64{1, 0x1p-30} {
				got := FailureProbability(n, bound, c.accept*bound, c.verify*bound)
				excess, _ := new(big.Float).Quo(big.NewFloat(got), c.want).Float64()
				if exact := new(big.Float).SetPrec(400).SetFloat64(got); exact.Cmp(c.want) < 0 || excess > 1+2e-9 {
					t.Errorf("%d samples, accept %v, verify %v of %v: %v, want %v or hardly more", n, c.accept, c.verify, bound, got, c.want)
				}
			}
		}
	}
}

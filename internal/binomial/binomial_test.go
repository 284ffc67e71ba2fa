package binomial

import (
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"testing"
	"time"
)

// exactTail is Pr[Binom(n,p) ≥ k] in rational arithmetic, p being the float64 that it is.
func exactTail(n int, p float64, k int) *big.Rat {
	success := new(big.Rat).SetFloat64(p)
	failure := new(big.Rat).Sub(big.NewRat(1, 1), success)
	sum := new(big.Rat)
	for j := max(k, 0); j <= n; j++ {
		term := new(big.Rat).SetInt(new(big.Int).Binomial(int64(n), int64(j)))
		for range j {
			term.Mul(term, success)
		}
		for range n - j {
			term.Mul(term, failure)
		}
		sum.Add(sum, term)
	}
	return sum
}

// check holds a tail against the exact one: never below, and above it by no more than is stated.
func check(t *testing.T, n int, p float64, k int, exact *big.Rat) {
	t.Helper()
	got := UpperTail(n, p, k)
	bound := new(big.Rat).SetFloat64(got)
	if bound.Cmp(exact) < 0 {
		want, _ := exact.Float64()
		t.Errorf("Pr[Binom(%d, %g) ≥ %d]: %g is below %g", n, p, k, got, want)
		return
	}
	want, _ := exact.Float64()
	mean := float64(n) * p
	switch {
	case float64(k) <= mean*(1+1e-12):
		if got != 1 {
			t.Errorf("Pr[Binom(%d, %g) ≥ %d] = %g, want 1: %d is at most the mean", n, p, k, got, k)
		}
	case want < LeastTail:
		if got > LeastTail {
			t.Errorf("Pr[Binom(%d, %g) ≥ %d] = %g, want %g", n, p, k, got, LeastTail)
		}
	case got > want*(1+3e-9+(float64(k)-mean)*1e-14):
		t.Errorf("Pr[Binom(%d, %g) ≥ %d] = %g, exact is %g: %.2g too large", n, p, k, got, want, got/want-1)
	}
}

// TestUpperTail holds tails against rational arithmetic, at the corners too.
func TestUpperTail(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	probs := []float64{0x1p-53, 1e-12, 1e-3, 0.5, math.Nextafter(0.5, 0), 1 - 0x1p-53, 0.999}
	for i := range 600 {
		n := 1 + rng.IntN(30)
		p := rng.Float64()
		if i%2 == 0 {
			p = probs[rng.IntN(len(probs))]
		}
		k := rng.IntN(n + 2)
		check(t, n, p, k, exactTail(n, p, k))
	}
	for n, p := range map[int]float64{1: 0, 7: 1} {
		if got := UpperTail(n, p, 1); got != p {
			t.Errorf("Pr[Binom(%d, %g) ≥ 1] = %g", n, p, got)
		}
		if got := UpperTail(n, p, n+1); got != 0 {
			t.Errorf("Pr[Binom(%d, %g) ≥ %d] = %g", n, p, n+1, got)
		}
		if got := UpperTail(n, p, 0); got != 1 {
			t.Errorf("Pr[Binom(%d, %g) ≥ 0] = %g", n, p, got)
		}
	}
}

// TestUpperTailOfMany is TestUpperTail for numbers of examples in use, by terms in 400 bits.
func TestUpperTailOfMany(t *testing.T) {
	number := func(x float64) *big.Float { return new(big.Float).SetPrec(400).SetFloat64(x) }
	for _, c := range []struct {
		n int
		p float64
		k int
	}{
		{14_745_599, 1793.0 / 14_745_600, 2048}, {14_745_599, 1793.0 / 14_745_600, 1794}, {14_745_599, 1793.0 / 14_745_600, 3600},
		{1_000_000_000, 1e-6, 1200}, {49_999, 0.004, 260}, {49_999, 0.5, 26_000}, {10_000, 0.99, 9990}, {300, 0.1, 290}, {2_000_000_000, 0x1p-53, 3},
	} {
		success := number(c.p)
		failure := number(1)
		failure.Sub(failure, success)
		term, power, left := number(1), new(big.Float).Copy(failure), c.n-c.k // C(n,k) p^k (1-p)^(n-k)
		for ; left > 0; left /= 2 {
			if left%2 == 1 {
				term.Mul(term, power)
			}
			power.Mul(power, power)
		}
		for j := range c.k {
			term.Mul(term, number(float64(c.n-j)))
			term.Quo(term, number(float64(j+1)))
			term.Mul(term, success)
		}
		sum := new(big.Float).Copy(term)
		for j := c.k; j < c.n && j < c.k+20_000; j++ {
			term.Mul(term, number(float64(c.n-j)))
			term.Quo(term, number(float64(j+1)))
			term.Mul(term, success)
			term.Quo(term, failure)
			sum.Add(sum, term)
		}
		exact, _ := sum.Rat(nil)
		check(t, c.n, c.p, c.k, exact)
	}
}

// TestUpperTailOfAnyNumber: bounds for numbers of trials that no data set has take no longer, stay
// above the tail, and are near it away from the mean.
func TestUpperTailOfAnyNumber(t *testing.T) {
	const p = 0.1
	for n := 1 << 30; n > 0; n *= 2 {
		mean, deviation := int(float64(n)*p), math.Sqrt(float64(n)*p*(1-p))
		for _, far := range []float64{1, 3, 6, 10} {
			start := time.Now()
			got := UpperTail(n, p, mean+int(far*deviation))
			normal := math.Erfc(far/math.Sqrt2) / 2
			if most := 1 + 2/(far*far); !(got >= normal*(1-1e-4)) || got > normal*most {
				t.Errorf("2^%d trials, %g deviations: %g, of the normal tail %g", bits.Len(uint(n))-1, far, got, normal)
			}
			if taken := time.Since(start); taken > time.Second {
				t.Fatalf("2^%d trials, %g deviations: %v", bits.Len(uint(n))-1, far, taken)
			}
		}
	}
}

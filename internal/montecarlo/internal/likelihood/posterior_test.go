package likelihood

import (
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/montecarlo/internal/law"
)

// owned is an owner's examples, some at once.
func owned(one []pattern, k int) []pattern {
	all := one
	for range k - 1 {
		all = together(all, one)
	}
	return all
}

// TestOwnersAreBetweenTheirBounds holds F4.3 and F4.6 against the patterns of all examples of an
// owner, and for one example, where both are the ratio itself.
func TestOwnersAreBetweenTheirBounds(t *testing.T) {
	strict, cases := 0, 0
	hold := func(name string, one []pattern, l law.Law, c *Columns, sigma float64, rng *rand.Rand) {
		factor := 1 / (sigma * sigma)
		ratio, post := NewChain(l, c.SquaredNorms(factor)), NewChainPosterior(l, c.SquaredNorms(factor))
		for k := 1; k <= 3; k++ {
			if math.Pow(float64(len(one)), float64(k)) > 3000 {
				continue
			}
			all := owned(one, k)
			upper := &OwnerUpper{One: ratio, Examples: k}
			lower := NewOwnerLower(post, k, c, factor).Fork()
			for range 2 {
				y := randomOutput(rng, c, sigma, all)
				want := enumerated(c, sigma, all, y)
				high, low := LogRatio(upper, c, sigma, y), LogRatio(lower, c, sigma, y)
				slack := 1e-9 * (1 + math.Abs(want) + math.Abs(low))
				if !(low <= want+slack && want <= high+slack) {
					t.Errorf("%s k=%d: %.12g is not between %.12g and %.12g", name, k, want, low, high)
				}
				if k == 1 {
					equal(t, name, low, want)
				}
				if cases++; high-low > 1e-3 {
					strict++
				}
			}
		}
	}
	eachEpoch(47, 5, func(name string, e epochs, c *Columns, sigma float64, rng *rand.Rand) {
		hold(name, epochPatterns(e), e.law(), c, sigma, rng)
	})
	eachLaw(func(name string, l law.Law, c *Columns, sigma float64, rng *rand.Rand) {
		hold(name, lawPatterns(l, c.Steps), l, c, sigma, rng)
	})
	if strict < cases/4 {
		t.Errorf("bounds differ in %d of %d cases only", strict, cases)
	}
}

package accounting

import (
	"math"
	"math/rand/v2"
	"strconv"
	"testing"
)

// TestSafeSide: the accepted mean of a trial has at most the failure probability that it was given,
// and a little more mean has more; the samples of a goal are enough for it; a number that is shown
// rounded up is below it by at most the rounding of a float64.
func TestSafeSide(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	for range 2000 {
		bound, q := math.Exp(-4*rng.Float64()), math.Exp(-30*rng.Float64()-1)
		verify := bound * math.Exp(-6*rng.Float64()-.01)
		samples := uint64(math.Exp(8*rng.Float64()) * bound / verify)
		accept := LargestAccept(samples, bound, verify, q)
		if accept > 0 && FailureProbability(samples, bound, accept, verify) > q {
			t.Fatalf("%d samples below %g accept %g of %g with a probability above %g", samples, bound, accept, verify, q)
		}
		if more := accept*(1+1e-9) + 1e-15*verify; more < verify && FailureProbability(samples, bound, more, verify) <= q {
			t.Fatalf("%d samples below %g accept %g of %g, and %g has a probability of at most %g too", samples, bound, accept, verify, more, q)
		}
		g := Goal{Bound: bound, Mean: verify * rng.Float64(), Errors: 3 * rng.Float64()}
		need := g.samples(verify, q)
		if need > 1e9 {
			continue
		}
		accept = LargestAccept(uint64(math.Ceil(need*(1+1e-9))), bound, verify, q)
		if least := g.Mean + g.Errors*math.Sqrt(bound*g.Mean/need); accept < least*(1-1e-9) {
			t.Fatalf("%+v: %g samples accept %g, less than %g", g, need, accept, least)
		}
		x, count := math.Exp(30*rng.NormFloat64()), 1+rng.IntN(6)
		up, err := strconv.ParseFloat(RoundedUp(x, count), 64)
		if err != nil || up < x*(1-1e-12) || up > x*(1+10*math.Pow(10, -float64(count))) {
			t.Fatalf("%v with %d digits: %v, %v", x, count, up, err)
		}
	}
}

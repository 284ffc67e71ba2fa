package attack

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// FalseAlarm bounds the probability of a false alarm: that a chain which is as private as its
// certificate says is found to exceed it, or that one with the right distribution is found to
// differ.
const FalseAlarm = 1e-9

// Rates are the successes of one test, which must be fixed before the observations. The test
// decides by a threshold of the log likelihood ratio between two distributions, "with" and
// "without" in either order.
type Rates struct {
	True     int     // observations of the first distribution that the test attributes to it
	Of       int     // observations of the first distribution
	False    int     // observations of the second that the test attributes to the first
	FalseOf  int     // observations of the second distribution
	trueLow  float64 // lower confidence bound of the probability behind True
	falseTop float64 // upper confidence bound of the probability behind False
}

// bounded fills in the bounds; each of them fails with probability at most alpha.
func (r Rates) bounded(alpha float64) Rates {
	r.trueLow = lowestRate(r.True, r.Of, alpha)
	r.falseTop = 1 - lowestRate(r.FalseOf-r.False, r.FalseOf, alpha)
	return r
}

// epsilon is the largest ε that the bounds rule out at delta, and 0 where they rule out none. Under
// (ε', δ)-DP every test's true rate is at most e^ε' times its false rate, plus δ.
func (r Rates) epsilon(delta float64) float64 {
	if r.trueLow <= delta {
		return 0
	}
	return max(0, math.Log((r.trueLow-delta)/r.falseTop))
}

// delta is a lower confidence bound of the hockey-stick divergence at epsilon, at least 0.
func (r Rates) delta(epsilon float64) float64 {
	return max(0, r.trueLow-math.Exp(epsilon)*r.falseTop)
}

// estimate is the divergence at epsilon that this test shows, without confidence, and its standard
// error.
func (r Rates) estimate(epsilon float64) (delta, standardError float64) {
	gamma, t, f := math.Exp(epsilon), float64(r.True)/float64(r.Of), float64(r.False)/float64(r.FalseOf)
	return t - gamma*f, math.Sqrt(t*(1-t)/float64(r.Of) + gamma*gamma*f*(1-f)/float64(r.FalseOf))
}

// lowestRate is Clopper and Pearson's lower confidence bound of a probability from the number of
// hits in trials. It exceeds the probability with probability at most alpha. It is the p at which
// Pr[Binom(trials, p) ≥ hits] = I_p(hits, trials-hits+1) is alpha, rounded down.
func lowestRate(hits, trials int, alpha float64) float64 {
	if hits == 0 {
		return 0
	}
	low, high := 0.0, float64(hits)/float64(trials)
	for range 60 {
		p := (low + high) / 2
		if mathext.RegIncBeta(float64(hits), float64(trials-hits+1), p) < alpha*(1-1e-6) {
			low = p
		} else {
			high = p
		}
	}
	return low
}

// Bound is the result of two fixed tests, one in each direction.
type Bound struct {
	Epsilon float64 // lower confidence bound of the smallest ε at the certificate's δ, at least 0
	// With decides "took part" where f > e^ε, and Without "did not" where f < e^-ε, ε being the
	// certificate's. By the lemma of Neyman and Pearson no other test shows a larger divergence at
	// that ε.
	With, Without Direction
}

// Direction is the result of the test in one direction.
type Direction struct {
	Rates
	Epsilon       float64 // lower confidence bound, at least 0
	Delta         float64 // lower confidence bound of the hockey-stick divergence at the certificate's ε
	Estimate      float64 // of that divergence, without a margin
	StandardError float64 // of Estimate
}

// NewBound judges log likelihood ratios of observations with and without the person, all
// independent. With probability at least 1 - [FalseAlarm]/2, Epsilon is at most the least ε for
// which the mechanism is (ε, delta)-DP, and each Delta is at most its divergence at epsilon.
func NewBound(with, without []float64, epsilon, delta float64) Bound {
	direction := func(of, other []float64, says func(log float64) bool) Direction {
		r := newRates(of, other, says).bounded(FalseAlarm / 8)
		d := Direction{Rates: r, Epsilon: r.epsilon(delta), Delta: r.delta(epsilon)}
		d.Estimate, d.StandardError = r.estimate(epsilon)
		return d
	}
	b := Bound{
		With:    direction(with, without, func(log float64) bool { return log > epsilon }),
		Without: direction(without, with, func(log float64) bool { return log < -epsilon }),
	}
	b.Epsilon = max(b.With.Epsilon, b.Without.Epsilon)
	return b
}

// newRates returns the rates of a test of two samples of log likelihood ratios.
func newRates(of, other []float64, says func(log float64) bool) Rates {
	return Rates{True: count(of, says), Of: len(of), False: count(other, says), FalseOf: len(other)}
}

func count(values []float64, says func(float64) bool) (n int) {
	for _, v := range values {
		if says(v) {
			n++
		}
	}
	return n
}

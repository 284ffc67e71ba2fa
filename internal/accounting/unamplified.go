package accounting

import (
	"context"
	"math"

	"minsep/internal/accounting/pld"
)

// unamplified bounds the divergences of random participations by the Gaussian mechanism of the
// largest one (F5.16). Divergences are convex: an owner is no worse off than if everybody knew that
// it takes part, and when, and the pattern were the worst of all.
type unamplified struct {
	sensitivity float64 // of an owner's examples together, rounded upward, above 0
	logNever    float64 // ln of the probability that an owner does not take part at all, rounded downward, below 0
}

// Errors of a few logarithms, and of the last bits of their terms.
const (
	relativeEpsilonError = 1e-12
	absoluteEpsilonError = 1e-15
)

// delta bounds H(P,Q) and H(Q,P) at epsilon. With f = 1-q + qg,
//
//	E(f-γ)_+ = q E(g-γ')_+,   γ' = 1 + (γ-1)/q,
//	E(1-γf)_+ = a E(1-γ'g)_+,   γ' = γq/a,   a = 1 - γ(1-q),   0 for a ≤ 0.
//
// Rounding lowers γ'. It raises a, and the second value rises with a for the same γq.
func (u unamplified) delta(noiseMultiplier, epsilon float64) (pq, qp float64) {
	q := u.prob()
	gaussian := func(epsilon float64) float64 {
		epsilon = max(0, epsilon*(1-relativeEpsilonError)-absoluteEpsilonError)
		return min(1, gaussianDelta(epsilon, u.sensitivity/noiseMultiplier)*upward)
	}
	pq = max(leastUnamplified, q*gaussian(pld.TakingEpsilon(epsilon, q, math.Exp(u.logNever))))
	if a := min(1, -math.Expm1(epsilon+u.logNever)+absoluteEpsilonError*(1+epsilon)); a > 0 {
		qp = max(leastUnamplified, a*gaussian(epsilon+math.Log(q/a)))
	}
	return pq, qp
}

// prob is q, the probability that an owner takes part at all.
func (u unamplified) prob() float64 { return -math.Expm1(u.logNever) }

// leastUnamplified is the least bound that is not 0: below it numbers lose their bits.
const leastUnamplified = 1e-300

// calibrate is the smallest noise multiplier at which delta proves (epsilon, delta)-DP. It is
// ErrNoProof where an owner takes part with a probability of at most delta: the claim then holds
// without any noise, and says nothing to those who do take part. Nobody is to be offered that as a
// smallest noise multiplier.
func (u unamplified) calibrate(ctx context.Context, epsilon, delta float64) (float64, error) {
	if u.prob() <= delta {
		return 0, ErrNoProof
	}
	private := func(noiseMultiplier float64) bool {
		pq, qp := u.delta(noiseMultiplier, epsilon)
		return max(pq, qp) <= delta
	}
	least, found := smallestFrom(u.sensitivity, pld.Largest, private)
	if !found {
		return 0, pld.ErrNotReached
	}
	return least, ctx.Err()
}

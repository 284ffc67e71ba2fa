package accounting

import (
	"errors"
	"math"

	"minsep/internal/golden"
	"minsep/internal/param"
)

// ErrTooFewSamples is wrapped by errors that name the number of samples that is enough.
var ErrTooFewSamples = errors.New("too few samples")

// divergence is kl(a, b) = a ln(a/b) + (1-a) ln((1-a)/(1-b)) for 0 ≤ a ≤ b ≤ 1, in nats, rounded
// down.
func divergence(a, b float64) float64 {
	switch {
	case !(a < b):
		return 0
	case b >= 1:
		return math.Inf(1)
	}
	kl := (1 - a) * (math.Log1p(-a) - math.Log1p(-b))
	if a > 0 {
		kl += a * math.Log(a/b)
	}
	// The terms cancel to about (b-a)²/b; their rounding is below 4 units of b.
	return max(0, kl-0x1p-50*b) * (1 - 1e-12)
}

// FailureProbability bounds the probability that the mean of samples independent values in [0,
// bound] is at most accept although their expectation is at least verify > accept: q = exp(-s
// kl(δ'/M, δ_v/M)) (F5.1′; F5.1 for bound 1), rounded up. With verify ≥ bound it is 0, since no
// expectation exceeds the bound.
func FailureProbability(samples uint64, bound, accept, verify float64) float64 {
	if verify >= bound {
		return 0
	}
	return math.Exp(-float64(samples)*divergence(accept/bound, verify/bound)) * (1 + 1e-12)
}

// samplesFor is the smallest number of samples, as a real number, at which FailureProbability is at
// most q.
func samplesFor(bound, accept, verify, q float64) float64 {
	if verify >= bound {
		return 0
	}
	return math.Ceil(-math.Log(q) / divergence(accept/bound, verify/bound) * (1 + 1e-9))
}

// Thresholds are the numbers of one verification. It accepts when the mean is at most Accept (δ').
// A mechanism whose δ is above Verify (δ_v) is then released with probability at most
// FailureProbability (q), and Verify + q(1 - Verify) is at most the claimed δ (arXiv 2602.09338,
// Theorem A.1).
type Thresholds struct {
	Accept             float64 `json:"accept"`              // δ', at least 0 and at most Verify
	Verify             float64 `json:"verify"`              // δ_v, at most the claimed δ
	FailureProbability float64 `json:"failure_probability"` // q, in [0, 1)
}

// Total is δ_v + q(1 - δ_v), rounded up.
func (t Thresholds) Total() float64 {
	return (t.Verify + t.FailureProbability*(1-t.Verify)) * (1 + 1e-15)
}

// Claim is a δ to be claimed, with the failure probabilities that it must share.
type Claim struct {
	Delta float64 // δ, at least 1e-300 and below 1
	// Earlier is the failure probability of earlier protocols, and of other points that are
	// accounted for separately.
	Earlier float64
	// MostFailure limits the claim's own failure probability, because other points count it too. 0
	// means no limit.
	MostFailure float64
}

func (c Claim) check(k *param.Checker) {
	checkDelta(k, c.Delta)
	k.Require(c.MostFailure >= 0, "largest failure probability", c.MostFailure, "must be at least 0")
	k.Requiref(
		c.Earlier >= 0 && c.Earlier < c.Delta,
		"earlier failure probability",
		c.Earlier,
		"must be at least 0 and below delta, %g", c.Delta,
	)
}

// allowed is the largest q up to MostFailure with δ_v + (q + earlier)(1 - δ_v) ≤ δ, rounded down.
func (c Claim) allowed(verify float64) float64 {
	q := (c.Delta-verify)/(1-verify)*(1-1e-9) - c.Earlier
	if c.MostFailure > 0 {
		q = min(q, c.MostFailure)
	}
	return q
}

// most is the largest δ_v that leaves some failure probability.
func (c Claim) most() float64 { return (c.Delta - c.Earlier) * (1 - 1e-9) }

// maxSamples is the largest number of samples of a verification. Sums in fixed point have room for
// more.
const maxSamples = 1e15

// leastCost minimizes a number of samples over δ_v above least.
func (c Claim) leastCost(least float64, samples func(verify, q float64) float64) (verify, total float64) {
	cost := func(verify float64) float64 {
		q := c.allowed(verify)
		if q <= 0 {
			return math.Inf(1)
		}
		return samples(verify, q)
	}
	// In u = ln((δ-δ_v)/(δ-δ')) the cost falls, then rises. The best u is near -ln of the number of
	// nats.
	low, high := -80.0, -1e-9
	most := c.most()
	at := func(u float64) float64 { return most - (most-least)*math.Exp(u) }
	// Among equal costs, such as infinite ones, the section keeps the larger u, because it searches
	// over -u.
	from, to := golden.Section(-high, -low, 1e-4, func(v float64) float64 { return cost(at(-v)) })
	verify = at(-(from + to) / 2)
	return verify, cost(verify)
}

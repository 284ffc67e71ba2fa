package pld

import "math"

// TakingEpsilon is ε' = ln(1 + (e^ε-1)/q), the ε at which the ratio of those who take part exceeds
// the claim's: with f = 1-q + qg, E(f-e^ε)_+ is q times E(g-e^ε')_+ (F5.16; arXiv 1807.01647,
// Theorem 2). q is the probability to take part, above 0, and never is 1-q with its own digits. The
// value is not rounded to a side: a caller that proves with it lowers it.
func TakingEpsilon(epsilon, q, never float64) float64 {
	if epsilon > 1 { // e^ε may leave the range of numbers
		return epsilon - math.Log(q) + math.Log1p(-never*math.Exp(-epsilon))
	}
	return math.Log1p(math.Expm1(epsilon) / q)
}

package audit

import (
	"cmp"
	"math"
	"slices"
)

// OneRunConfidence is the confidence of the bound of [OneRun].
const OneRunConfidence = 0.95

// OneRun is a lower bound of ε at delta, with confidence [OneRunConfidence], from one run with
// len(with) + len(without) canaries, each of them included by its own fair coin. Only the coins
// must be independent, not the canaries' observations (Steinke, Nasr and Jagielski, arXiv
// 2305.08846, Theorem 5.2).
//
// It guesses that the canaries with the greatest scores were included, and that as many with the
// least scores were not. guesses is the number of both together; it is rounded down to an even
// number and must be fixed in advance. Ties are broken so that they can only cost correct guesses.
func OneRun(with, without []float64, guesses int, delta float64) float64 {
	all := pooled(with, without)
	m := len(all)
	guesses = min(guesses, m) / 2 * 2
	correct := 0
	slices.SortFunc(all, func(a, b labelled) int { // ties: canaries that were not included come first
		return cmp.Or(cmp.Compare(b.score, a.score), compareBool(a.first, b.first))
	})
	for _, c := range all[:guesses/2] {
		if c.first {
			correct++
		}
	}
	slices.SortFunc(all, func(a, b labelled) int {
		return cmp.Or(cmp.Compare(a.score, b.score), compareBool(b.first, a.first))
	})
	for _, c := range all[:guesses/2] {
		if !c.first {
			correct++
		}
	}
	if correct == 0 || oneRunPValue(m, guesses, correct, 0, delta) > 1-OneRunConfidence {
		return 0
	}
	low, high := 0.0, 50.0
	for range 50 {
		mid := (low + high) / 2
		if oneRunPValue(m, guesses, correct, mid, delta) <= 1-OneRunConfidence {
			low = mid
		} else {
			high = mid
		}
	}
	return low
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}

// oneRunPValue bounds the probability that at least correct of the guesses about m canaries are
// right, if the mechanism is (epsilon, delta)-DP. The bound is β + 2 m δ α, where W is binomial
// with guesses trials of probability e^ε/(1+e^ε), β = Pr[W ≥ correct], and α is the largest
// Pr[correct-i ≤ W < correct]/i over i ≥ 1.
func oneRunPValue(m, guesses, correct int, epsilon, delta float64) float64 {
	q := 1 / (1 + math.Exp(-epsilon))
	mass := func(k int) float64 { return math.Exp(logBinomial(guesses, k, q)) }
	beta := 0.0
	for k := correct; k <= guesses; k++ {
		beta += mass(k)
	}
	alpha, sum := 0.0, 0.0
	for i := 1; i <= correct; i++ {
		sum += mass(correct - i)
		alpha = max(alpha, sum/float64(i))
	}
	return min(1, beta+2*float64(m)*delta*alpha)
}

// logBinomial is ln Pr[Binom(n, q) = k] for 0 < q < 1.
func logBinomial(n, k int, q float64) float64 {
	choose := func(n int) float64 { v, _ := math.Lgamma(float64(n + 1)); return v }
	return choose(n) - choose(k) - choose(n-k) + float64(k)*math.Log(q) + float64(n-k)*math.Log1p(-q)
}

package accounting

import (
	"math"
	"strconv"

	"minsep/internal/digits"
)

// EpsilonDelta is one guarantee of (Epsilon, Delta)-differential privacy in both directions:
// Epsilon at least 0, Delta in [0, 1].
type EpsilonDelta struct {
	Epsilon float64 `json:"epsilon"`
	Delta   float64 `json:"delta"`
}

// Guarantee holds points (ε, δ) that hold together. Its bounds for attacks are proven if its points
// are, and estimates if they are estimates (F6.1).
type Guarantee []EpsilonDelta

// Attack bounds the success of a test that decides from everything released whether the protected
// unit took part. With a false positive rate of at most FPR, its true positive rate is at most TPR.
type Attack struct {
	FPR float64 `json:"false_positive_rate"` // in [0, 1]
	TPR float64 `json:"true_positive_rate"`  // at most, in [0, 1]
}

// AttackRates are the false positive rates at which attacks are reported.
var AttackRates = []float64{1e-3, 1e-2, 0.1}

// leastRate is the smallest float64 above 0.
const leastRate = math.SmallestNonzeroFloat64

// roundedUp increases a rate by more than rounding can have lowered it.
func roundedUp(rate float64) float64 { return min(1, rate*(1+1e-12)) }

// TPR is the largest true positive rate of a test at a false positive rate in [0, 1] (F6.1),
// rounded up.
func (g Guarantee) TPR(fpr float64) float64 {
	most := 1.0
	for _, p := range g {
		if fpr == 0 { // e^ε may be infinite, and infinity times 0 is not a number
			most = min(most, p.Delta)
		}
		// The term e^-ε(1-δ-α) is subtracted, so it is rounded down.
		most = min(
			most,
			p.Delta+math.Exp(p.Epsilon)*max(fpr, leastRate),
			1-math.Exp(-p.Epsilon)*(1-p.Delta-fpr)*(1-1e-12),
		)
	}
	return roundedUp(max(fpr, most))
}

// Advantage is the largest TPR - FPR of any test, rounded up. It bounds the total variation
// distance.
func (g Guarantee) Advantage() float64 {
	most := 0.0
	for _, fpr := range g.corners() {
		most = max(most, g.TPR(fpr)-fpr)
	}
	return roundedUp(most)
}

// corners returns the false positive rates where two of the lines that bound the true positive rate
// meet. The largest advantage is at one of them.
func (g Guarantee) corners() (rates []float64) {
	type line struct{ at, slope float64 }
	lines := []line{{1, 0}}
	for _, p := range g {
		less := math.Exp(-p.Epsilon)
		lines = append(lines, line{p.Delta, math.Exp(p.Epsilon)}, line{1 - less*(1-p.Delta), less})
	}
	rates = []float64{0, leastRate, 1} // a line of infinite slope meets the others next to 0
	for i, a := range lines {
		for _, b := range lines[:i] {
			if x := (b.at - a.at) / (a.slope - b.slope); x > 0 && x < 1 {
				rates = append(rates, x)
			}
		}
	}
	return rates
}

// AttackBounds are the bounds of a guarantee for attacks, and the worth of its points.
type AttackBounds struct {
	Worth     string   `json:"worth"` // status of the points: certified, not proven, proven or estimated
	Advantage float64  `json:"advantage"`
	Rates     []Attack `json:"rates"`
}

// AttackBounds returns the bounds for points of the given worth.
func (g Guarantee) AttackBounds(worth string) AttackBounds {
	return AttackBounds{worth, g.Advantage(), g.Attacks()}
}

// AtMost writes a bound of a rate in words: "at most 0.622", rounded up, or "not bounded" for 1.
func AtMost(rate float64) string {
	if rate >= 1 {
		return "not bounded"
	}
	return "at most " + RateUp(rate)
}

// RateUp writes a rate, at least 0 and below 1, with three significant digits, rounded up. It takes
// more digits where three would give 1.
func RateUp(rate float64) string {
	if rate <= 0 {
		return "0"
	}
	for count := 3; ; count++ {
		if up := RoundedUp(rate, count); up != "1" || count == 17 {
			return up
		}
	}
}

// RoundedUp writes a number above 0 with count significant digits, rounded up. A relative excess of
// 1e-12 is taken for an error of x's own rounding, and does not count.
func RoundedUp(x float64, count int) string {
	return strconv.FormatFloat(digits.Up(x*(1-1e-12), count), 'g', count, 64)
}

// Attacks are the bounds at [AttackRates].
func (g Guarantee) Attacks() (attacks []Attack) {
	for _, fpr := range AttackRates {
		attacks = append(attacks, Attack{fpr, g.TPR(fpr)})
	}
	return attacks
}

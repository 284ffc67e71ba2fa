// Package normal has the standard normal distribution's tails with a small relative
// error far out, where privacy parameters live: probabilities down to 1e-300.
package normal

import (
	"math"

	"gonum.org/v1/gonum/mathext"
)

// asymptotic is where the Mills ratio's asymptotic series takes over: its smallest
// term there is below 1e-20.
const asymptotic = 10

// Density is the standard normal density.
func Density(x float64) float64 { return math.Exp(-x*x/2) / math.Sqrt(2*math.Pi) }

// Tail is Pr[z > x].
func Tail(x float64) float64 {
	if x < asymptotic {
		return math.Erfc(x/math.Sqrt2) / 2
	}
	return Density(x) * Mills(x)
}

// Mills is the Mills ratio Tail(x)/Density(x), for x ≥ -37. It falls from large
// values through 1.2533 at 0 like 1/x.
func Mills(x float64) float64 {
	if x < asymptotic {
		return math.Erfc(x/math.Sqrt2) / 2 / Density(x)
	}
	return (1 - millsDeficit(x)) / x
}

// MillsSlope is 1 - x·Mills(x), minus the derivative of the Mills ratio: positive and like 1/x².
func MillsSlope(x float64) float64 {
	if x < asymptotic {
		return 1 - x*Mills(x)
	}
	return millsDeficit(x)
}

// millsDeficit sums 1 - x·Mills(x) = 1/x² - 3/x⁴ + 15/x⁶ - … (Abramowitz and Stegun 26.2.12).
func millsDeficit(x float64) float64 {
	term, sum := 1/(x*x), 0.0
	for k := 3.0; math.Abs(term) > 1e-17*sum && k < 60; k += 2 {
		sum += term
		term *= -k / (x * x)
	}
	return sum
}

// Quantile returns x with Tail(x) = p, for 0 < p < 1, to about 1e-15.
func Quantile(p float64) float64 { return -mathext.NormalQuantile(p) }

package stattest

import (
	"math"
	"math/rand/v2"
)

// Poisson draws from a Poisson distribution. Above a mean of 400 it uses the normal approximation.
func Poisson(rng *rand.Rand, mean float64) float64 {
	if mean > 400 {
		return math.Max(0, math.Round(mean+math.Sqrt(mean)*rng.NormFloat64()))
	}
	n, left := -1.0, mean
	for left >= 0 {
		left -= rng.ExpFloat64()
		n++
	}
	return n
}

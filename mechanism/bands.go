package mechanism

import "math"

// StartingBands is the rule of thumb of arXiv 2405.15913 for the number of bands that does best
// with amplification, ε√n/k, at least 1.
func StartingBands(epsilon float64, steps, participations int) int {
	return int(max(1, min(float64(steps), math.Round(epsilon*math.Sqrt(float64(steps))/float64(participations)))))
}

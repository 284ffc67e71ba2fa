package mechanism

import "math"

// StartingBands returns the rule of thumb of arXiv 2405.15913 for the best number of bands with
// amplification: ε√n/k, rounded, from 1 to n.
func StartingBands(epsilon float64, steps, participations int) int {
	return int(max(1, min(float64(steps), math.Round(epsilon*math.Sqrt(float64(steps))/float64(participations)))))
}

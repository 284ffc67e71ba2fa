package pld

import (
	"cmp"
	"slices"
)

// normTolerance is the relative difference below which column norms share one event, which takes the
// largest norm. It saves a discretisation a step.
const normTolerance = 1e-5

// Cyclic returns the events of DP-MF with cyclic Poisson sampling and a strategy of at most minSep
// bands (arXiv 2602.09338, section 3; F3.5). Examples are divided into minSep parts; step i draws
// from part i mod minSep, and each example of the part is in the batch with probability each.Prob. So
// an example can take part in every minSep-th step only, and the strategy's columns of these steps do
// not overlap. Its steps are independent events like each, with the columns' norms as sensitivities.
// 1 for minSep is Poisson sampling with independent noise.
//
// The events are those of a part that is at least as bad as each real one: its j-th largest norm is
// the largest of all parts' j-th largest norms. norms are in the order of the steps, at least one.
func Cyclic(each Release, norms []float64, minSep int) (steps []Step) {
	var worst []float64
	for phase := range min(minSep, len(norms)) {
		var part []float64
		for i := phase; i < len(norms); i += minSep {
			part = append(part, norms[i])
		}
		slices.SortFunc(part, func(a, b float64) int { return cmp.Compare(b, a) })
		worst = append(worst, part[min(len(worst), len(part)):]...)
		for j, norm := range part {
			worst[j] = max(worst[j], norm)
		}
	}
	for _, norm := range worst {
		if len(steps) == 0 || !(norm >= each.Sensitivity*(1-normTolerance)) {
			each.Sensitivity = norm
			steps = append(steps, Step{Event: each})
		}
		steps[len(steps)-1].Count++
	}
	return steps
}

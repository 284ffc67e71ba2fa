package tuples

import (
	"math"
	"slices"
)

// sumStarts sets LnN by the multisets of the labels that copies begin with: the terms are
// θ!/Π m_x! Π π_x V. starts has their partial sums, in the order of the numbers of the multisets, if
// tuples are drawn.
func (t *Table) sumStarts() {
	total, w := 0.0, newWaits(t.unrolled, 0)
	labels, to := make([]int32, t.theta), make([]int32, t.theta)
	for ; int(labels[0]) < len(t.start); advance(labels) {
		weight, equal := 1.0, 0
		for l, x := range labels {
			if equal++; l == 0 || labels[l-1] != x {
				equal = 1
			}
			weight *= t.start[x] * float64(l+1) / float64(equal)
		}
		copy(to, labels)
		total += weight * t.beginning(w, to)
		if t.options.Keep {
			t.starts = append(t.starts, total)
		}
	}
	t.LnN = math.Log(total) + t.scale[0]
}

// beginning is V of labels before step 0, in units of e^scale[0]. It changes labels.
func (t *Table) beginning(w *waiting, labels []int32) float64 {
	descend(labels)
	lowest := labels[len(labels)-1]
	after := w.until(lowest)
	if after == nil {
		return math.Exp(-t.scale[0])
	}
	for l, y := range labels {
		labels[l] = after[y]
	}
	descend(labels)
	ahead := t.steps[0].wait[lowest]
	v := t.slice[ahead][t.stateNumber(labels, t.steps[ahead].active)]
	if t.scale[ahead] != t.scale[0] {
		v *= math.Exp(t.scale[ahead] - t.scale[0])
	}
	return v
}

// pick returns the index that a number in (0,1) falls on, given partial sums.
func pick(sums []float64, u float64) int {
	last := len(sums) - 1
	i, _ := slices.BinarySearch(sums, u*sums[last])
	return min(i, last)
}

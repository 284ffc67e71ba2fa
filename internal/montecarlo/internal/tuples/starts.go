package tuples

import (
	"math"
	"slices"
)

// starts are the sums of V_0 over the multisets of the labels that copies begin with: at sums[z]
// those with the lowest label z, in the order of the numbers of the others less z.
type starts struct {
	sums [][]float64 // partial sums, if tuples are drawn
	of   []float64   // partial sums over z
}

// sumStarts sets LnN. The sum has the terms θ!/Π m_x! Π π_x V.
func (t *Table) sumStarts() {
	total, w := 0.0, newWaits(t.unrolled, 0)
	labels, to := make([]int32, t.theta), make([]int32, t.theta)
	others := labels[:t.theta-1]
	for z := range t.start {
		var sums []float64
		sum, span := 0.0, len(t.start)-z
		for clear(labels); len(others) == 0 || int(others[0]) < span; advance(others) {
			weight, equal := 1.0, 0
			for l, x := range labels {
				to[l] = x + int32(z)
				if equal++; l == 0 || labels[l-1] != x {
					equal = 1
				}
				weight *= t.start[to[l]] * float64(l+1) / float64(equal)
			}
			sum += weight * t.beginning(w, to)
			if t.options.Keep {
				sums = append(sums, sum)
			}
			if len(others) == 0 {
				break
			}
		}
		total += sum
		t.starts.sums, t.starts.of = append(t.starts.sums, sums), append(t.starts.of, total)
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

// draw sets labels to those of a start, by two numbers in (0,1).
func (s *starts) draw(m multisets, labels []int32, u, v float64) {
	z := pick(s.of, u)
	last := len(labels) - 1
	m.unrank(labels[:last], pick(s.sums[z], v))
	labels[last] = 0
	for l := range labels {
		labels[l] += int32(z)
	}
}

// pick returns the index that a number in (0,1) falls on, given partial sums.
func pick(sums []float64, u float64) int {
	last := len(sums) - 1
	i, _ := slices.BinarySearch(sums, u*sums[last])
	return min(i, last)
}

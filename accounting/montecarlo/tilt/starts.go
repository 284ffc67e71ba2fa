package tilt

import (
	"math"
	"slices"

	"minsep/accounting/montecarlo/internal/law"
)

// starts sums V_0 over the labels that replicas begin with. A start is an index into label, which
// ascends.
type starts struct {
	label []int
	prob  []float64
	order []int // in which they are drawn
	drawn bool  // a random number is spent on each

	// sums[k] holds, for each multiset of k known starts, the sum over the other θ-k starts; sums[0]
	// is N_θ, up to the scale of slice 0.
	sums  [][]float64
	scale []float64 // of each of the first slices over the scale of the first one
}

func (t *tuples) sumStarts() {
	list, drawn := t.law.Starts()
	t.drawn = drawn
	list = slices.DeleteFunc(list, func(s law.Start) bool { return s.Prob == 0 })
	for i := range list {
		t.order = append(t.order, i)
	}
	slices.SortFunc(t.order, func(a, b int) int { return list[a].Label - list[b].Label })
	for _, i := range t.order {
		t.label, t.prob = append(t.label, list[i].Label), append(t.prob, list[i].Prob)
	}
	for i := range list {
		t.order[i], _ = slices.BinarySearch(t.label, list[i].Label)
	}
	first := t.level(0, false)
	for _, label := range t.label {
		for i := len(t.scale); i <= t.law.FreeAt(label, 0); i++ {
			t.scale = append(t.scale, t.level(min(i, t.steps), false).over(first))
		}
	}
	counted := t.theta == 3 && t.kinds[0].triples && t.label[len(t.label)-1] == len(t.label)-1
	t.sums = make([][]float64, t.theta)
	known, all := make([]int, t.theta), make([]int, t.theta)
	for k := t.theta - 1; k >= 0; k-- {
		t.sums[k] = make([]float64, t.binomial[k][len(t.label)])
		eachDescending(known[:k], len(t.label)-1, func() {
			sum := 0.0
			if k == 2 && counted {
				sum = t.thirdStart(known[0], known[1])
			} else {
				for s, p := range t.prob {
					sum += p * t.startSum(insert(all, known[:k], s))
				}
			}
			t.sums[k][rank(t.binomial, k, known[:k])] = sum
		})
	}
	t.lnN = math.Log(t.sums[0][0]) + float64(t.exp2[0])*math.Ln2 + t.ln[0]
}

// startSum is the sum over the unknown starts, given some of them in descending order; it may
// change them.
func (t *tuples) startSum(known []int) float64 {
	if len(known) < t.theta {
		return t.sums[len(known)][rank(t.binomial, len(known), known)]
	}
	for l, s := range known {
		known[l] = t.label[s]
	}
	step := t.wait(known, 0)
	if step >= t.steps {
		return t.scale[step]
	}
	return t.level(step, false).slice[t.numberOf(known)] * t.scale[step]
}

// thirdStart is the sum over the start of the last of three replicas, given the starts d ≤ c of
// two, where starts are steps to wait. It equals startSum in a fraction of the time.
func (t *tuples) thirdStart(c, d int) (sum float64) {
	first := func(c int) int { return c * (c + 1) / 2 }
	settled := func(r int) []float64 { return t.level(min(r, t.steps), false).slice }
	sum = t.prob[0] * (settled(0)[first(c)+d] * t.scale[0])
	for r := 1; r <= d; r++ {
		sum += t.prob[r] * (settled(r)[first(c-r)+d-r] * t.scale[r])
	}
	ahead, scale := settled(d), t.scale[d]
	for r := d + 1; r <= c; r++ {
		sum += t.prob[r] * (ahead[first(c-d)+r-d] * scale)
	}
	for r := c + 1; r < len(t.prob); r++ {
		sum += t.prob[r] * (ahead[first(r-d)+c-d] * scale)
	}
	return sum
}

// insert copies known, descending, with r added, into dst[:len(known)+1].
func insert(dst, known []int, r int) []int {
	l := len(known)
	for ; l > 0 && known[l-1] < r; l-- {
		dst[l] = known[l-1]
	}
	copy(dst, known[:l])
	dst[l] = r
	return dst[:len(known)+1]
}

// drawStart draws one more start given the known ones, which descend.
func (t *tuples) drawStart(known, scratch []int, u float64) int {
	u *= t.sums[len(known)][rank(t.binomial, len(known), known)]
	last := len(t.order) - 1
	for _, s := range t.order[:last] {
		if u -= t.prob[s] * t.startSum(insert(scratch, known, s)); u < 0 {
			return s
		}
	}
	return t.order[last]
}

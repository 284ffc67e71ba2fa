package tuples

// triples are the states (c, d, 0) of order 3, c ≥ d ≥ 1, with one free label, 0, at every step.
// Their numbers are c(c+1)/2 + d. Their moves follow from those of the labels, so that none is
// stored.
type triples struct {
	out   []int32  // if the free copy does not take part
	first []int32  // by d: the number of the state with the label by then of that copy, and label 0
	then  []uint16 // at c·labels + d: the label by then of the copy with label c

	ahead  [][]float64 // of a step: the slice at wait, from first on
	factor []float64   // of a step: the weight by d if the free copy takes part
}

// fewFree says whether one label is free at every step, its copies stay free until they take part,
// and no other label passes one that waits longer. A copy that took part then waits the longest.
func (u *unrolled) fewFree() bool {
	for i, x := range u.steps {
		if x.free > 1 || x.active > x.free || x.free == 1 && x.out[0] > 0 && u.prob[i][0] < 1 {
			return false
		}
		for y := 1; y < len(x.out); y++ {
			if y > x.free && x.out[y] < x.out[y-1] || x.free == 1 && x.out[y] > x.in[0] {
				return false
			}
		}
	}
	return true
}

// makeTriples takes the pattern of the step before w.
func (v *moves) makeTriples(w *waiting, x *pattern) *triples {
	labels := len(x.out)
	t := &triples{
		out:    x.out,
		first:  make([]int32, labels),
		then:   make([]uint16, labels*labels),
		ahead:  make([][]float64, labels),
		factor: make([]float64, labels),
	}
	for d := 1; d < labels; d++ {
		after := v.wait(w, x.out[d])
		if after == nil {
			continue
		}
		t.first[d] = pairNumber(after[x.in[0]], 0)
		for c := d; c < labels; c++ {
			t.then[c*labels+d] = uint16(after[x.out[c]])
		}
	}
	return t
}

// step sets the states of dst and returns the greatest value. coef has the weights if the free copy
// stays and if it takes part, gamma the factors of the
// labels that meet it, and end is V after the run.
func (t *triples) step(dst []float64, ahead [][]float64, end, coef, gamma []float64) (most float64) {
	labels := len(t.out)
	for d := 1; d < labels; d++ {
		t.factor[d], t.ahead[d] = coef[1]*gamma[d], ahead[t.out[d]][t.first[d]:]
	}
	following := ahead[0]
	if coef[0] == 0 {
		following = end // of no weight
	}
	for c := 1; c < labels; c++ {
		first, next := pairNumber(int32(c), 0), pairNumber(t.out[c], 0)
		row(
			dst[first+1:first+int32(c)+1],
			following[next:],
			t.out[1:],
			coef[0],
			gamma[c],
			t.factor[1:],
			t.ahead[1:],
			t.then[c*labels+1:],
		)
		for _, v := range dst[first+1 : first+int32(c)+1] {
			most = max(most, v)
		}
	}
	return most
}

// row sets the states of one c. It is a function of its own so that all it needs stays in
// registers.
func row(
	dst, following []float64,
	out []int32,
	stay, own float64,
	factor []float64,
	ahead [][]float64,
	then []uint16,
) {
	out, factor, ahead, then = out[:len(dst)], factor[:len(dst)], ahead[:len(dst)], then[:len(dst)]
	for d := range dst {
		dst[d] = stay*following[out[d]] + own*factor[d]*ahead[d][then[d]]
	}
}

// pairNumber is the number of the state of order 3 with two labels, c ≥ d, besides a free one.
func pairNumber(c, d int32) int32 { return c*(c+1)/2 + d }

package tuples

import "sort"

// multisets numbers multisets of labels, given in descending order x_1 ≥ … ≥ x_k:
// multisets[k][x] is how many there are of k labels below x, C(x+k-1, k), and the number of one is
//
//	rank(x) = Σ_l C(x_l + k-l, k-l+1).
type multisets [][]int

func newMultisets(size, labels int) multisets {
	m := make(multisets, size+1)
	for k := range m {
		m[k] = make([]int, labels+1)
		for x := range m[k] {
			switch {
			case k == 0:
				m[k][x] = 1
			case x > 0:
				m[k][x] = m[k][x-1] + m[k-1][x]
			}
		}
	}
	return m
}

func (m multisets) rank(descending []int32) (number int) {
	size := len(descending)
	for l, x := range descending {
		number += m[size-l][x]
	}
	return number
}

// unrank sets descending to the multiset with a number.
func (m multisets) unrank(descending []int32, number int) {
	for l := range descending {
		row := m[len(descending)-l]
		x := sort.Search(len(row), func(x int) bool { return row[x] > number }) - 1
		descending[l] = int32(x)
		number -= row[x]
	}
}

// advance changes a multiset to the one with the next number.
func advance(descending []int32) {
	l := len(descending) - 1
	for l > 0 && descending[l] == descending[l-1] {
		descending[l] = 0
		l--
	}
	descending[l]++
}

// descend sorts a few labels.
func descend(x []int32) {
	for l := 1; l < len(x); l++ {
		for at := l; at > 0 && x[at-1] < x[at]; at-- {
			x[at-1], x[at] = x[at], x[at-1]
		}
	}
}

// Count is the number of multisets of k out of a number of labels, C(labels+k-1, k).
func Count(labels, k int) float64 {
	count := 1.0
	for j := range k {
		count *= float64(labels+j) / float64(j+1)
	}
	return count
}

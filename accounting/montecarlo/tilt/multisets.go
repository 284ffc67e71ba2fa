package tilt

// multisets counts multisets, and numbers the multisets of one size: multisets[k][c] is how
// many there are of k entries below c, C(c+k-1, k).
type multisets [][]int

// newMultisets is for sizes up to size and entries below top.
func newMultisets(size, top int) multisets {
	m := make(multisets, size+1)
	for k := range m {
		m[k] = make([]int, top+1)
		for c := range m[k] {
			switch {
			case k == 0:
				m[k][c] = 1
			case c > 0: // Pascal: C(c+k-1,k) = C(c+k-2,k) + C(c+k-2,k-1)
				m[k][c] = m[k][c-1] + m[k-1][c]
			}
		}
	}
	return m
}

// rank is the number of a multiset, given in descending order, among the multisets of size
// entries. Entries that are left out are 0.
func rank[T uint16 | int](m multisets, size int, descending []T) int {
	number := 0
	for l, c := range descending {
		number += m[size-l][c]
	}
	return number
}

// eachDescending calls f for every descending filling of entries with values of at most top.
func eachDescending[T uint16 | int](entries []T, top int, f func()) {
	if len(entries) == 0 {
		f()
		return
	}
	for c := range top + 1 {
		entries[0] = T(c)
		eachDescending(entries[1:], c, f)
	}
}

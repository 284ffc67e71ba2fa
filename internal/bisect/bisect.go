// Package bisect halves intervals.
//
// Stability: may change with every release.
package bisect

// Between narrows an interval to at most width around the place where below stops to hold: it holds
// at from unless that is low, and does not at to unless that is high.
func Between(low, high, width float64, below func(x float64) bool) (from, to float64) {
	for high-low > width {
		middle := low + (high-low)/2
		if middle <= low || middle >= high { // neighbours
			break
		}
		if below(middle) {
			low = middle
		} else {
			high = middle
		}
	}
	return low, high
}

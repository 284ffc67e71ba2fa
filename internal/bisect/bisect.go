// Package bisect finds the point where a condition changes by halving an interval.
package bisect

// Between narrows [low, high] to at most width around the point where below turns from true to
// false. below must change at most once. It holds at from, unless from is still low, and not at to,
// unless to is still high. The interval stays wider than width only if its ends are neighbouring
// numbers.
func Between(low, high, width float64, below func(x float64) bool) (from, to float64) {
	for high-low > width {
		middle := low + (high-low)/2
		if middle <= low || middle >= high { // neighbouring numbers
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

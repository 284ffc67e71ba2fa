// Package golden minimises unimodal functions of one variable by golden-section search.
package golden

// ratio is the golden section's, (√5-1)/2.
const ratio = 0.6180339887498949

// Points returns the two points that divide [low, high] by the golden section, the lower first.
func Points(low, high float64) (a, b float64) {
	return high - ratio*(high-low), low + ratio*(high-low)
}

// Section narrows [low, high] around a minimum of f until it is at most width wide; width must be
// positive. It returns the last interval, and f at its two inner points, which tell how flat f is
// there. Of equal values it keeps the lower part. It evaluates f twice at first, then once for each
// narrowing. f may return +Inf.
func Section(low, high, width float64, f func(x float64) float64) (from, to, fa, fb float64) {
	a, b := Points(low, high)
	fa, fb = f(a), f(b)
	for high-low > width {
		if fa <= fb {
			high, b, fb = b, a, fa
			a, _ = Points(low, high)
			fa = f(a)
		} else {
			low, a, fa = a, b, fb
			_, b = Points(low, high)
			fb = f(b)
		}
	}
	return low, high, fa, fb
}

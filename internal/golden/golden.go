// Package golden minimises unimodal functions of one variable by golden-section search.
package golden

// ratio is the golden section's, (√5-1)/2.
const ratio = 0.6180339887498949

// Section narrows [low, high] around a minimum of f until it is at most width wide; width must be
// positive. Of equal values it keeps the lower part. It evaluates f twice at first, then once for each
// narrowing. f may return +Inf.
func Section(low, high, width float64, f func(x float64) float64) (from, to float64) {
	a, b := high-ratio*(high-low), low+ratio*(high-low)
	fa, fb := f(a), f(b)
	for high-low > width {
		if fa <= fb {
			high, b, fb = b, a, fa
			a = high - ratio*(high-low)
			fa = f(a)
		} else {
			low, a, fa = a, b, fb
			b = low + ratio*(high-low)
			fb = f(b)
		}
	}
	return low, high
}

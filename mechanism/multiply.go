package mechanism

import (
	"slices"

	"gonum.org/v1/gonum/floats"
)

// multiplyToeplitz sets dst to T x, T lower triangular Toeplitz with first column c.
func multiplyToeplitz(dst, c, x []float64) {
	reversed := backwards(c)
	for i := range dst {
		if head := len(c) - 1 - i; head > 0 {
			dst[i] = floats.Dot(reversed[head:], x[:i+1])
		} else {
			dst[i] = floats.Dot(reversed, x[i+1-len(c):i+1])
		}
	}
}

// solveToeplitz sets dst to T⁻¹ x, T lower triangular Toeplitz with first column c.
func solveToeplitz(dst, c, x []float64) {
	inverse := 1 / c[0]
	reversed := backwards(c[1:])
	for i := range dst {
		if head := len(reversed) - i; head > 0 {
			dst[i] = (x[i] - floats.Dot(reversed[head:], dst[:i])) * inverse
		} else {
			dst[i] = (x[i] - floats.Dot(reversed, dst[i-len(reversed):i])) * inverse
		}
	}
}

// backwards returns a reversed copy: inner products with a vector in order are fast.
func backwards(c []float64) []float64 {
	r := slices.Clone(c)
	slices.Reverse(r)
	return r
}

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

// addSolveGradient adds to grad the gradient by c of a function of w = T⁻¹ x, T lower triangular
// Toeplitz with first column c, from the function's gradient g by w: with l = T⁻ᵀ g it is
// -Σ_i l_i w_{i-j} for c_j. The result is divided by total. It overwrites g with l.
func addSolveGradient(grad, c, w, g []float64, total float64) {
	inverse := 1 / c[0]
	for i := len(g) - 1; i >= 0; i-- {
		below := g[i+1 : min(len(g), i+len(c))]
		g[i] = (g[i] - floats.Dot(c[1:1+len(below)], below)) * inverse
	}
	for j := range c {
		grad[j] -= floats.Dot(g[j:], w[:len(g)-j]) / total
	}
}

// backwards returns a reversed copy: inner products with a vector in order are fast.
func backwards(c []float64) []float64 {
	r := slices.Clone(c)
	slices.Reverse(r)
	return r
}

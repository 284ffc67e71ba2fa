package mechanism

import (
	"fmt"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// Multiply returns C x for x of Steps entries, in O(Steps·Bands), or O(Steps·buffers) for a BLT.
func (s *Strategy) Multiply(x []float64) []float64 {
	s.checkLength(x)
	if s.Normalized {
		scaled := make([]float64, len(x))
		for i, norm := range s.ColumnNorms() {
			scaled[i] = x[i] / norm
		}
		x = scaled
	}
	y := make([]float64, len(x))
	switch {
	case s.Columns != nil:
		for i, c := range s.Columns {
			for j, v := range c {
				y[i+j] += v * x[i]
			}
		}
	case s.InverseToeplitz != nil:
		solveToeplitz(y, s.InverseToeplitz, x)
	case s.BLT != nil:
		copy(y, x)
		for m, scale := range s.BLT.Scales {
			buffer := 0.0
			for t, v := range x {
				y[t] += scale * buffer
				buffer = s.BLT.Decays[m]*buffer + v
			}
		}
	default:
		multiplyToeplitz(y, s.Toeplitz, x)
	}
	return y
}

// Solve returns C⁻¹ z for z of Steps entries: one coordinate of the correlated noise if z is iid
// normal. It takes as long as [Strategy.Multiply].
func (s *Strategy) Solve(z []float64) []float64 {
	s.checkLength(z)
	y := make([]float64, len(z))
	switch {
	case s.Columns != nil:
		copy(y, z)
		for i, c := range s.Columns {
			y[i] /= c[0]
			for j, v := range c[1:] {
				y[i+1+j] -= v * y[i]
			}
		}
	case s.InverseToeplitz != nil:
		multiplyToeplitz(y, s.InverseToeplitz, z)
	case s.BLT != nil:
		buffers := make([]float64, len(s.BLT.Scales))
		for t, v := range z {
			for m, scale := range s.BLT.Scales {
				v -= scale * buffers[m]
			}
			y[t] = v
			for m, decay := range s.BLT.Decays {
				buffers[m] = decay*buffers[m] + v
			}
		}
	default:
		solveToeplitz(y, s.Toeplitz, z)
	}
	if s.Normalized {
		for i, norm := range s.ColumnNorms() {
			y[i] *= norm
		}
	}
	return y
}

// checkLength panics if x is not a vector of Steps entries: that is a mistake of the caller.
func (s *Strategy) checkLength(x []float64) {
	if len(x) != s.Steps {
		panic(fmt.Sprintf("mechanism: vector of %d entries for a strategy of %d steps", len(x), s.Steps))
	}
}

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

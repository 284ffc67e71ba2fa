package mechanism

import "fmt"

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

// Solve returns C⁻¹ z for z of Steps entries: one coordinate of the correlated noise when z is iid normal.
// Cost as for [Strategy.Multiply].
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

func (s *Strategy) checkLength(x []float64) {
	if len(x) != s.Steps {
		panic(fmt.Sprintf("mechanism: vector of %d entries for a strategy of %d steps", len(x), s.Steps))
	}
}

// multiplyToeplitz sets dst to T x, T lower triangular Toeplitz with first column c.
func multiplyToeplitz(dst, c, x []float64) {
	for i := range dst {
		sum := 0.0
		for j, v := range c[:min(len(c), i+1)] {
			sum += v * x[i-j]
		}
		dst[i] = sum
	}
}

// solveToeplitz sets dst to T⁻¹ x, T lower triangular Toeplitz with first column c.
func solveToeplitz(dst, c, x []float64) {
	inverse := 1 / c[0]
	for i := range dst {
		sum := x[i]
		for j := 1; j < len(c) && j <= i; j++ {
			sum -= c[j] * dst[i-j]
		}
		dst[i] = sum * inverse
	}
}

package mechanism

import "math"

// RowBound gives the tests the bound that Sensitivity takes only for large strategies.
func (s *Strategy) RowBound(b, k int) (float64, error) {
	g, err := newGram(s, 1)
	if err != nil {
		return 0, err
	}
	return math.Sqrt(g.rowBound(b, k)), nil
}

// ToeplitzError gives the tests the error, with its gradient, that optimisations look at.
func (p Problem) ToeplitzError(bands int) (func(c, grad []float64) float64, error) {
	return p.newToeplitzError(bands)
}

// MajorantBound gives the tests the bound that Sensitivity takes only for large Toeplitz
// strategies.
func (s *Strategy) MajorantBound(b, k int) float64 { return s.majorantBound(b, k) }

// LogAmplifiedNoise gives the tests ln σ̂² with its gradient.
func LogAmplifiedNoise(c, grad []float64, independent float64) float64 {
	return logAmplifiedNoise(c, grad, independent)
}

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

// MajorantBound gives the tests the bound that Sensitivity takes only for large Toeplitz
// strategies.
func (s *Strategy) MajorantBound(b, k int) float64 { return s.majorantBound(b, k) }

// Functions of the optimisations that only the tests outside of the package call.
var (
	AmplifiedToeplitz = amplifiedToeplitz
	FamilyOf          = familyOf
	LogAmplifiedNoise = logAmplifiedNoise
	OptimalDense      = optimalDense
	RatesOf           = schedule
	Search            = search
	ToeplitzError     = newToeplitzError // ln of the error, with its gradient
)

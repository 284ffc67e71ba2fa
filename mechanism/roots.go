package mechanism

import "context"

// Kinds of banded roots of the prefix matrix A (arXiv 2605.18379).
const (
	KindBSR  = "bsr"  // banded square root
	KindBFR  = "bfr"  // banded fractional root
	KindBISR = "bisr" // banded inverse square root
	KindBIFR = "bifr" // banded inverse fractional root (Definition 2)
)

func init() {
	// gamma is the exponent γ of the root A^γ.
	gamma := &Parameter{Name: "gamma", Low: 0, High: 1}
	register(Family{
		Kind: KindBSR, Rank: 50,
		Help:  "the first --bands bands of the square root of prefix sums",
		Size:  BandsSize,
		bands: givenBands,
		make: func(_ context.Context, _ Problem, p Params) (*Strategy, error) {
			return BSR(p.Steps, p.Bands)
		},
	})
	register(Family{
		Kind: KindBFR, Rank: 60,
		Help: "the first --bands bands of the power --gamma of prefix sums",
		Size: BandsSize, Parameter: gamma,
		bands: func(p Params) int { return unlessZero(p.Gamma, p.Bands) },
		member: func(p Params, x float64) (*Strategy, error) {
			return valid(&Strategy{Kind: KindBFR, Steps: p.Steps, Toeplitz: powerOfPrefix(p.Bands, x)})
		},
		parameterOf: func(s *Strategy) (float64, bool) { return second(s.Toeplitz, 1) },
	})
	register(Family{
		Kind: KindBISR, Rank: 70,
		Help:  "the inverse has the first --bands bands of the inverse square root",
		Size:  BandsSize,
		bands: inverseBands,
		make: func(_ context.Context, _ Problem, p Params) (*Strategy, error) {
			return valid(&Strategy{Kind: KindBISR, Steps: p.Steps, InverseToeplitz: powerOfPrefix(p.Bands, -.5)})
		},
	})
	register(Family{
		Kind: KindBIFR, Rank: 80,
		Help: "the inverse has the first --bands bands of the power -γ, --gamma",
		Size: BandsSize, Parameter: gamma,
		bands: func(p Params) int { return unlessZero(p.Gamma, inverseBands(p)) },
		member: func(p Params, x float64) (*Strategy, error) {
			return valid(&Strategy{Kind: KindBIFR, Steps: p.Steps, InverseToeplitz: powerOfPrefix(p.Bands, -x)})
		},
		parameterOf: func(s *Strategy) (float64, bool) { return second(s.InverseToeplitz, -1) },
	})
}

// BSR returns the banded square root: the first bands entries, 1 to steps, of the square root of the
// prefix matrix (arXiv 2605.18379).
func BSR(steps, bands int) (*Strategy, error) {
	p := Params{Kind: KindBSR, Steps: steps, Bands: bands}
	if err := p.Validate(); err != nil {
		return nil, err
	}
	return valid(&Strategy{Kind: KindBSR, Steps: steps, Toeplitz: powerOfPrefix(bands, .5)})
}

// powerOfPrefix returns the first bands entries of the first column of A^γ, the coefficients of
// (1-x)^-γ (arXiv 2605.18379).
func powerOfPrefix(bands int, gamma float64) []float64 {
	c := make([]float64, bands)
	c[0] = 1
	fractional(c[1:], gamma)
	return c
}

// second returns sign times the second entry of x, and whether there is one.
func second(x []float64, sign float64) (float64, bool) {
	if len(x) < 2 {
		return 0, false
	}
	return sign * x[1], true
}

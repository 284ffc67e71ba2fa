package mechanism

// Kinds of banded roots of the prefix matrix (arXiv 2605.18379).
const (
	KindBSR  = "bsr"  // banded square root
	KindBFR  = "bfr"  // banded fractional root
	KindBISR = "bisr" // banded inverse square root
	KindBIFR = "bifr" // banded inverse fractional root (Definition 2)
)

// gammaParameter is the exponent γ of the root A^γ of the prefix matrix A.
var gammaParameter = &Parameter{Name: "gamma", Symbol: "γ", Low: 0, High: 1}

func init() {
	register(Family{
		Kind: KindBSR, Rank: 50,
		Help:  "the first --bands bands of the square root of prefix sums",
		Size:  BandsSize,
		bands: givenBands,
		make:  func(_ Problem, p Params, _ bool) (*Strategy, error) { return BSR(p.Steps, p.Bands) },
	})
	register(Family{
		Kind: KindBFR, Rank: 60,
		Help: "the first --bands bands of the power --gamma of prefix sums",
		Size: BandsSize, Parameter: gammaParameter,
		bands: func(p Params) int { return unlessZero(p.Gamma, p.Bands) },
		make: func(problem Problem, p Params, normalized bool) (*Strategy, error) {
			return problem.givenOrBest(
				p.Gamma,
				gammaParameter,
				normalized,
				func(x float64) (*Strategy, error) { return BFR(p.Steps, p.Bands, x) },
			)
		},
		parameterOf: func(s *Strategy) (float64, bool) { return second(s.Toeplitz, 1) },
	})
	register(Family{
		Kind: KindBISR, Rank: 70,
		Help:  "the inverse has the first --bands bands of the inverse square root",
		Size:  BandsSize,
		bands: inverseBands,
		make:  func(_ Problem, p Params, _ bool) (*Strategy, error) { return BISR(p.Steps, p.Bands) },
	})
	register(Family{
		Kind: KindBIFR, Rank: 80,
		Help: "the inverse has the first --bands bands of the power -γ, --gamma",
		Size: BandsSize, Parameter: gammaParameter,
		bands: func(p Params) int { return unlessZero(p.Gamma, inverseBands(p)) },
		make: func(problem Problem, p Params, normalized bool) (*Strategy, error) {
			return problem.givenOrBest(
				p.Gamma,
				gammaParameter,
				normalized,
				func(x float64) (*Strategy, error) { return BIFR(p.Steps, p.Bands, x) },
			)
		},
		parameterOf: func(s *Strategy) (float64, bool) { return second(s.InverseToeplitz, -1) },
	})
}

// BSR returns the banded square root: the first bands entries of the square root of the prefix
// matrix (arXiv 2605.18379).
func BSR(steps, bands int) (*Strategy, error) {
	s, err := BFR(steps, bands, .5)
	return renamed(s, err, KindBSR)
}

// BFR returns the banded fractional root γ-BFR: the first bands coefficients of (1-x)^-γ, γ in [0,
// 1] (arXiv 2605.18379).
func BFR(steps, bands int, gamma float64) (*Strategy, error) {
	if err := checkFamily(steps, bands, "gamma", gamma); err != nil {
		return nil, err
	}
	c := make([]float64, bands)
	c[0] = 1
	fractional(c[1:], gamma)
	return valid(&Strategy{Kind: KindBFR, Steps: steps, Toeplitz: c})
}

// BISR returns the banded inverse square root: C⁻¹ holds the first bands coefficients of (1-x)^½
// (arXiv 2605.18379).
func BISR(steps, bands int) (*Strategy, error) {
	s, err := BIFR(steps, bands, .5)
	return renamed(s, err, KindBISR)
}

// BIFR returns the banded inverse fractional root γ-BIFR: C⁻¹ holds the first bands coefficients of
// (1-x)^γ, (-1)^j binom(γ, j), γ in [0, 1] (arXiv 2605.18379, Definition 2).
func BIFR(steps, bands int, gamma float64) (*Strategy, error) {
	if err := checkFamily(steps, bands, "gamma", gamma); err != nil {
		return nil, err
	}
	h := make([]float64, bands)
	h[0] = 1
	fractional(h[1:], -gamma)
	return valid(&Strategy{Kind: KindBIFR, Steps: steps, InverseToeplitz: h})
}

// second returns sign times the second entry of x, and whether there is one.
func second(x []float64, sign float64) (float64, bool) {
	if len(x) < 2 {
		return 0, false
	}
	return sign * x[1], true
}

// renamed returns s with another kind: a square root is the fractional root of exponent ½.
func renamed(s *Strategy, err error, kind string) (*Strategy, error) {
	if err == nil {
		s.Kind = kind
	}
	return s, err
}

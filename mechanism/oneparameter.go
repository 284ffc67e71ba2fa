package mechanism

import "math"

// KindOneParameter is θ_i ∝ 1/i + c (arXiv 2405.15913, Appendix J).
const KindOneParameter = "one-parameter"

func init() {
	register(Family{
		Kind: KindOneParameter, Rank: 40,
		Help: "--bands bands, band i is 1/i + --offset",
		Size: BandsSize, Parameter: &Parameter{Name: "offset", Low: -1, High: math.Inf(1)},
		bands: givenBands,
		least: func(p Params) float64 { return -1 / float64(max(1, p.Bands)) },
		member: func(p Params, x float64) (*Strategy, error) {
			theta := make([]float64, p.Bands)
			for i := range theta {
				theta[i] = 1/float64(i+1) + x
			}
			return valid(&Strategy{Kind: KindOneParameter, Steps: p.Steps, Toeplitz: theta})
		},
		parameterOf: func(s *Strategy) (float64, bool) {
			if s.Toeplitz == nil {
				return 0, false
			}
			return s.Toeplitz[0] - 1, true
		},
	})
}

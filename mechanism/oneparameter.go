package mechanism

import (
	"math"

	"minsep/internal/param"
)

// KindOneParameter is θ_i ∝ 1/i + c (arXiv 2405.15913, Appendix J).
const KindOneParameter = "one-parameter"

func init() {
	offset := &Parameter{Name: "offset", Symbol: "c", Low: -1, High: math.Inf(1)}
	register(Family{
		Kind: KindOneParameter, Rank: 40,
		Help: "--bands bands, band i is 1/i + --offset",
		Size: BandsSize, Parameter: offset,
		check: func(p Params, c *param.Checker) {
			if p.Offset != nil && *p.Offset >= offset.Low {
				c.Require(*p.Offset*float64(p.Bands) >= -1, offset.Name, *p.Offset, "must be at least -1/bands")
			}
		},
		bands: givenBands,
		make: func(problem Problem, p Params, normalized bool) (*Strategy, error) {
			if p.Offset != nil {
				return OneParameter(p.Steps, p.Bands, *p.Offset)
			}
			s, _, _, err := problem.OptimalOneParameter(p.Bands, normalized)
			return s, err
		},
		parameterOf: func(s *Strategy) (float64, bool) {
			if s.Toeplitz == nil {
				return 0, false
			}
			return s.Toeplitz[0] - 1, true
		},
	})
}

// OneParameter returns the banded Toeplitz strategy θ_i = 1/i + c, i = 1 to bands, c ≥ -1/bands
// (arXiv 2405.15913, Appendix J).
func OneParameter(steps, bands int, c float64) (*Strategy, error) {
	check := param.Checker{}
	check.Require(bands >= 1 && bands <= steps, "bands", bands, "must be 1 to the steps")
	check.Require(c*float64(bands) >= -1, "offset", c, "must be at least -1/bands")
	if err := check.Err(); err != nil {
		return nil, err
	}
	theta := make([]float64, bands)
	for i := range theta {
		theta[i] = 1/float64(i+1) + c
	}
	return valid(&Strategy{Kind: KindOneParameter, Steps: steps, Toeplitz: theta})
}

// OptimalOneParameter returns the strategy θ_i = 1/i + c of least loss and c (arXiv 2405.15913,
// Appendix J), normalised or not.
func (p Problem) OptimalOneParameter(bands int, normalized bool) (*Strategy, float64, Convergence, error) {
	if p.Workload == nil {
		return nil, 0, Convergence{}, p.Validate()
	}
	offset := func(t float64) float64 { return t/(1-t) - 1/float64(bands) }
	s, t, c, err := p.Search(0, .999, func(t float64) (*Strategy, error) {
		s, err := OneParameter(p.Workload.Steps, bands, offset(t))
		if err == nil && normalized {
			s = NormalizedColumns(s)
		}
		return s, err
	})
	return s, offset(t), c, err
}

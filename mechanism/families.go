package mechanism

import (
	"math"

	"minsep/internal/param"
)

// Toeplitz returns the strategy with the given first column of C: 1 to steps entries, the first positive.
func Toeplitz(steps int, column []float64) (*Strategy, error) {
	return valid(&Strategy{Kind: KindToeplitz, Steps: steps, Toeplitz: column})
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

// BIFR returns the banded inverse fractional root γ-BIFR: C⁻¹ holds the first bands coefficients of (1-x)^γ,
// (-1)^j binom(γ, j), γ in [0, 1] (arXiv 2605.18379, Definition 2).
func BIFR(steps, bands int, gamma float64) (*Strategy, error) {
	if err := checkFamily(steps, bands, "gamma", gamma); err != nil {
		return nil, err
	}
	h := make([]float64, bands)
	h[0] = 1
	fractional(h[1:], -gamma)
	return valid(&Strategy{Kind: KindBIFR, Steps: steps, InverseToeplitz: h})
}

// LambdaCGD returns C[i][j] = λ^{i-j}, λ in [0, 1], whose inverse has the bands (1, -λ)
// (arXiv 2601.22334, equation 7); with normalized its columns are divided by their norms
// (arXiv 2601.22334, Proposition 7).
func LambdaCGD(steps int, lambda float64, normalized bool) (*Strategy, error) {
	if err := checkFamily(steps, min(2, steps), "lambda", lambda); err != nil {
		return nil, err
	}
	return valid(&Strategy{Kind: KindLambdaCGD, Steps: steps, InverseToeplitz: []float64{1, -lambda}[:min(2, steps)], Normalized: normalized})
}

// OneParameter returns the banded Toeplitz strategy θ_i = 1/i + c, i = 1 to bands, c ≥ -1/bands
// (arXiv 2405.15913, Appendix J).
func OneParameter(steps, bands int, c float64) (*Strategy, error) {
	check := param.Checker{Package: "mechanism"}
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

// Stamped returns the block diagonal strategy with s repeated: its noise starts afresh every s.Steps steps. It is held by columns.
func Stamped(s *Strategy, times int) (*Strategy, error) {
	check := param.Checker{Package: "mechanism"}
	check.AtLeast("stamps", times, 1)
	check.Add(s.Validate())
	if err := check.Err(); err != nil {
		return nil, err
	}
	stamped := &Strategy{Kind: KindStamped, Steps: s.Steps * times}
	block := s.columns()
	for range times {
		stamped.Columns = append(stamped.Columns, block...)
	}
	return valid(stamped)
}

// columns returns every column of s, normalised when it is, down to the last band.
func (s *Strategy) columns() [][]float64 {
	all := make([][]float64, s.Steps)
	if s.Columns != nil {
		for i := range all {
			all[i] = s.Column(nil, i)
		}
		return all
	}
	c := s.FirstColumn(nil)
	norms := s.ColumnNorms()
	for i := range all {
		all[i] = c[:min(len(c), s.Steps-i)]
		if s.Normalized {
			all[i] = append([]float64(nil), all[i]...)
			for j := range all[i] {
				all[i][j] /= norms[i]
			}
		}
	}
	return all
}

// NormalizedColumns returns s with its columns divided by their norms: with one participation, or
// at most min-sep bands, equal norms are never worse than unequal ones after the noise multiplier
// is set for the largest (arXiv 2405.15913, section 3.2).
func NormalizedColumns(s *Strategy) *Strategy {
	t := *s
	t.Normalized = true
	return &t
}

func checkFamily(steps, bands int, name string, value float64) error {
	check := param.Checker{Package: "mechanism"}
	check.AtLeast("steps", steps, 1)
	check.Require(bands >= 1 && bands <= steps, "bands", bands, "must be 1 to the steps")
	check.Require(value >= 0 && value <= 1, name, value, "must be in [0, 1]")
	return check.Err()
}

func valid(s *Strategy) (*Strategy, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return s, nil
}

func renamed(s *Strategy, err error, kind string) (*Strategy, error) {
	if err == nil {
		s.Kind = kind
	}
	return s, err
}

// Search returns the strategy of least loss of a family with one parameter, and the parameter: the best of a grid over
// [low, high], refined by golden sections between its neighbours to 1e-6 of the range. family may refuse a value with an error; it is
// then taken as infinitely bad. Gap is the relative difference of the losses at the last two sections.
func (p Problem) Search(low, high float64, family func(x float64) (*Strategy, error)) (*Strategy, float64, Convergence, error) {
	const grid = 24
	if err := p.Validate(); err != nil {
		return nil, 0, Convergence{}, err
	}
	var refusal error
	var best struct {
		s       *Strategy
		x, loss float64
	}
	best.loss = math.Inf(1)
	evaluations := 0
	loss := func(x float64) float64 {
		evaluations++
		s, err := family(x)
		var value float64
		if err == nil {
			value, err = p.Loss(s)
		}
		if err != nil || !(value >= 0) {
			refusal = err
			return math.Inf(1)
		}
		if value < best.loss {
			best.s, best.x, best.loss = s, x, value
		}
		return value
	}
	for i := range grid + 1 {
		loss(low + (high-low)*float64(i)/grid)
	}
	if best.s == nil {
		return nil, 0, Convergence{Gap: math.Inf(1), Iterations: evaluations}, refusal
	}
	const golden = 0.6180339887498949
	from, to := max(low, best.x-(high-low)/grid), min(high, best.x+(high-low)/grid)
	a, b := to-golden*(to-from), from+golden*(to-from)
	fa, fb := loss(a), loss(b)
	for to-from > 1e-6*(high-low) {
		if fa <= fb {
			to, b, fb = b, a, fa
			a = to - golden*(to-from)
			fa = loss(a)
		} else {
			from, a, fa = a, b, fb
			b = from + golden*(to-from)
			fb = loss(b)
		}
	}
	return best.s, best.x, Convergence{best.loss, math.Abs(fa-fb) / best.loss, evaluations}, nil
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

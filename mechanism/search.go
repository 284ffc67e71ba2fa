package mechanism

import (
	"math"

	"minsep/internal/golden"
	"minsep/internal/param"
)

// Search returns the strategy of least loss of a one-parameter family, and its parameter. It takes
// the best of a grid over [low, high], and refines it by golden sections between its neighbours to
// 1e-6 of the range. family may refuse a value with an error: the value then counts as infinitely
// bad. Gap is the relative difference of the losses at the last two sections.
func (p Problem) Search(
	low, high float64,
	family func(x float64) (*Strategy, error),
) (*Strategy, float64, Convergence, error) {
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
		if p.context().Err() != nil { // the rest of the search takes no time
			return math.Inf(1)
		}
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
	if err := p.context().Err(); err != nil {
		return nil, 0, Convergence{}, err
	}
	if best.s == nil {
		return nil, 0, Convergence{Gap: math.Inf(1), Iterations: evaluations}, refusal
	}
	from, to := max(low, best.x-(high-low)/grid), min(high, best.x+(high-low)/grid)
	_, _, fa, fb := golden.Section(from, to, 1e-6*(high-low), loss)
	if err := p.context().Err(); err != nil {
		return nil, 0, Convergence{}, err
	}
	return best.s, best.x, Convergence{best.loss, math.Abs(fa-fb) / best.loss, evaluations}, nil
}

// checkFamily requires at least one step, 1 to steps bands, and a parameter in [0, 1].
func checkFamily(steps, bands int, name string, value float64) error {
	check := param.Checker{}
	check.AtLeast("steps", steps, 1)
	check.Require(bands >= 1 && bands <= steps, "bands", bands, "must be 1 to the steps")
	check.Require(value >= 0 && value <= 1, name, value, "must be in [0, 1]")
	return check.Err()
}

// valid returns s, or the error of its validation.
func valid(s *Strategy) (*Strategy, error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	return s, nil
}

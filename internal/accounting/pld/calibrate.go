package pld

import (
	"errors"
	"math"

	"minsep/internal/bisect"
	"minsep/internal/param"
)

// Largest is the largest noise multiplier that the search tries.
const Largest = 1e6

// ErrNotReached says that no noise multiplier up to 1e6 gives the privacy asked for: a probability
// that has to count as a total loss, such as Options.Tail, is above δ.
var ErrNotReached = errors.New("no noise multiplier up to 1e6 is enough")

// Search says how a noise multiplier is searched for.
type Search struct {
	Least float64 // the smallest one, at least 0 and below [Largest]
	Start float64 // the first one that is tried, above 0
	Step  float64 // in ln σ to the next one, above 0; each is twice as long as the one before
	Width float64 // of ln σ: the result is that near to the smallest one that is enough
}

// Calibrate finds a noise multiplier σ, at least Least, at which delta(σ), a δ at epsilon, is at most
// want. delta must not rise with σ.
func (s Search) Calibrate(want float64, delta func(noiseMultiplier float64) (float64, error)) (float64, error) {
	c := param.Checker{}
	c.Require(want > 0 && want < 1, "delta", want, "must be above 0 and below 1")
	c.Require(s.Least >= 0 && s.Least < Largest, "least noise multiplier", s.Least, "must be at least 0 and below 1e6")
	if err := c.Err(); err != nil {
		return 0, err
	}
	// excess is ln δ(ε) - ln δ at ln σ = x: a falling function of x.
	excess := func(x float64) (float64, error) {
		found, err := delta(max(s.Least, math.Exp(x)))
		return math.Log(max(found, 1e-300)) - math.Log(want), err
	}
	low, high, err := s.enclose(excess)
	if err != nil {
		return 0, err
	}
	if low == high {
		return s.Least, nil
	}
	high, err = bisect.Falling(excess, low, high, s.Width)
	return max(s.Least, math.Exp(high.X)), err
}

// enclose finds two points around the zero of a falling function by steps from the start. If the
// function is not above 0 at the least x, both points are there.
func (s Search) enclose(excess func(float64) (float64, error)) (low, high bisect.Point, err error) {
	least := math.Log(s.Least)
	at := bisect.Point{X: max(math.Log(s.Start), least)}
	if at.Y, err = excess(at.X); err != nil {
		return low, high, err
	}
	for step := s.Step; ; step *= 2 {
		next := bisect.Point{X: min(at.X+step, math.Log(Largest))}
		if at.Y <= 0 {
			next.X = max(at.X-step, least)
		}
		switch {
		case at.Y > 0 && at.X >= math.Log(Largest):
			return low, high, ErrNotReached
		case next.X == at.X:
			return at, at, nil
		}
		if next.Y, err = excess(next.X); err != nil {
			return low, high, err
		}
		switch {
		case at.Y > 0 && next.Y <= 0:
			return at, next, nil
		case at.Y <= 0 && next.Y > 0:
			return next, at, nil
		}
		at = next
	}
}

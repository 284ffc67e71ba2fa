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

// Calibrate finds a noise multiplier σ, at least least, at which delta(σ), a δ at epsilon, is at most
// want. It is within 1e-6 of the smallest one. delta must not rise with σ.
func Calibrate(want, least float64, delta func(noiseMultiplier float64) (float64, error)) (float64, error) {
	c := param.Checker{}
	c.Require(want > 0 && want < 1, "delta", want, "must be above 0 and below 1")
	c.Require(least >= 0 && least < Largest, "least noise multiplier", least, "must be at least 0 and below 1e6")
	if err := c.Err(); err != nil {
		return 0, err
	}
	// excess is ln δ(ε) - ln δ at ln σ = x: a falling function of x.
	excess := func(x float64) (float64, error) {
		found, err := delta(max(least, math.Exp(x)))
		return math.Log(max(found, 1e-300)) - math.Log(want), err
	}
	low, high, err := enclose(excess, math.Log(least))
	if err != nil {
		return 0, err
	}
	if low == high {
		return least, nil
	}
	_, high, err = bisect.Falling(excess, low, high, 1e-6, 5e-7, 4e-7)
	return max(least, math.Exp(high.X)), err
}

// enclose finds two points around the zero of a falling function by steps from 0, or from the least
// x if that is larger. If the function is not above 0 at the least x, both points are there.
func enclose(excess func(float64) (float64, error), least float64) (low, high bisect.Point, err error) {
	const step = 0.7
	at := bisect.Point{X: max(0, least)}
	if at.Y, err = excess(at.X); err != nil {
		return low, high, err
	}
	for {
		next := bisect.Point{X: at.X + step}
		if at.Y <= 0 {
			next.X = max(at.X-step, least)
		}
		switch {
		case next.X == at.X:
			return at, at, nil
		case next.X > math.Log(Largest):
			return low, high, ErrNotReached
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

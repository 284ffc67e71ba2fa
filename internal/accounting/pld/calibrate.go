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

// Calibrate finds the smallest noise multiplier σ, at least least, at which compose(σ) is
// (epsilon, delta)-DP. Upper is proven to be enough, and is within 1e-6 of the smallest σ for which
// this accountant can prove it. Lower is proven to be too small, or 0 where Upper is least. compose
// must not lose privacy as σ grows.
func Calibrate(
	epsilon, delta, least float64,
	compose func(noiseMultiplier float64) (*Composition, error),
) (Bracket, error) {
	c := param.Checker{}
	c.Require(epsilon >= 0 && !math.IsInf(epsilon, 1), "epsilon", epsilon, "must be a finite number, at least 0")
	c.Require(delta > 0 && delta < 1, "delta", delta, "must be above 0 and below 1")
	c.Require(least >= 0 && least < Largest, "least noise multiplier", least, "must be at least 0 and below 1e6")
	if err := c.Err(); err != nil {
		return Bracket{}, err
	}
	// excess is ln δ(ε) - ln δ by the upper bounds, at ln σ = x: a falling function of x.
	excess := func(x float64) (float64, error) {
		composition, err := compose(max(least, math.Exp(x)))
		if err != nil {
			return 0, err
		}
		upper, err := composition.UpperDelta(epsilon)
		return math.Log(max(upper, 1e-300)) - math.Log(delta), err
	}
	low, high, err := enclose(excess, math.Log(least))
	switch {
	case err != nil:
		return Bracket{}, err
	case low == high:
		return Bracket{Upper: least}, nil
	}
	if _, high, err = bisect.Falling(excess, low, high, 1e-6, 5e-7, 4e-7); err != nil {
		return Bracket{}, err
	}
	lower, err := tooSmall(epsilon, delta, least, high.X, compose)
	if err != nil {
		return Bracket{}, err
	}
	return Bracket{Lower: lower, Upper: max(least, math.Exp(high.X))}, nil
}

// tooSmall walks down from ln σ = x until the lower bound of δ proves that the noise is too small;
// it is 0 where none does.
func tooSmall(
	epsilon, delta, least, x float64,
	compose func(noiseMultiplier float64) (*Composition, error),
) (sigma float64, err error) {
	for gap := 2e-6; gap < 1; gap *= 4 {
		if sigma = math.Exp(x - gap); sigma < least {
			break
		}
		composition, err := compose(sigma)
		if err != nil {
			return 0, err
		}
		d, err := composition.Delta(epsilon)
		if err != nil {
			return 0, err
		}
		if d.Lower > delta {
			return sigma, nil
		}
	}
	return 0, nil
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

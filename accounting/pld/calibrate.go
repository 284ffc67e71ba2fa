package pld

import (
	"errors"
	"math"

	"minsep/internal/param"
)

// Largest is the largest noise multiplier that the search tries.
const Largest = 1e6

// ErrNotReached says that no noise multiplier up to 1e6 gives the privacy asked for: a probability
// that has to count as a total loss, such as Options.Tail, is above δ.
var ErrNotReached = errors.New("pld: no noise multiplier up to 1e6 is enough")

// Calibrate finds the smallest noise multiplier σ, at least least, at which compose(σ) is
// (epsilon, delta)-DP. Upper is proven to be enough, and is within 1e-6 of the smallest σ for which
// this accountant can prove it. Lower is proven to be too small, or 0 where Upper is least. compose
// must not lose privacy as σ grows.
func Calibrate(epsilon, delta, least float64, compose func(noiseMultiplier float64) (*Composition, error)) (Bracket, error) {
	c := param.Checker{Package: "pld"}
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
	for side := 0; high.x-low.x > 1e-6; {
		// Regula falsi, Illinois variant: an end that stays for two rounds has its value halved.
		// The point is kept away from both ends, so that each round shortens the bracket.
		x := (low.x*high.y - high.x*low.y) / (high.y - low.y)
		x = min(max(x+5e-7, low.x+4e-7), high.x-4e-7)
		y, err := excess(x)
		if err != nil {
			return Bracket{}, err
		}
		if y > 0 {
			low = end{x, y}
			if side == -1 {
				high.y /= 2
			}
			side = -1
		} else {
			high = end{x, min(y, -1e-12)}
			if side == 1 {
				low.y /= 2
			}
			side = 1
		}
	}
	lower, err := tooSmall(epsilon, delta, least, high.x, compose)
	if err != nil {
		return Bracket{}, err
	}
	return Bracket{Lower: lower, Upper: max(least, math.Exp(high.x))}, nil
}

// tooSmall walks down from ln σ = x until the lower bound of δ proves that the noise is too small;
// it is 0 where none does.
func tooSmall(epsilon, delta, least, x float64, compose func(noiseMultiplier float64) (*Composition, error)) (sigma float64, err error) {
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

// end is one end of a bracket of ln σ: x is ln σ, y the excess there.
type end struct{ x, y float64 }

// enclose finds two ends around the zero of a falling function by steps from 0, or from the least x
// if that is larger. If the function is not above 0 at the least x, both ends are there.
func enclose(excess func(float64) (float64, error), least float64) (low, high end, err error) {
	const step = 0.7
	at := end{x: max(0, least)}
	if at.y, err = excess(at.x); err != nil {
		return low, high, err
	}
	for {
		next := end{x: at.x + step}
		if at.y <= 0 {
			next.x = max(at.x-step, least)
		}
		switch {
		case next.x == at.x:
			return at, at, nil
		case next.x > math.Log(Largest):
			return low, high, ErrNotReached
		}
		if next.y, err = excess(next.x); err != nil {
			return low, high, err
		}
		switch {
		case at.y > 0 && next.y <= 0:
			return at, end{next.x, min(next.y, -1e-12)}, nil
		case at.y <= 0 && next.y > 0:
			return next, end{at.x, min(at.y, -1e-12)}, nil
		}
		at = next
	}
}

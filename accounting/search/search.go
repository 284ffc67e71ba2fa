package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"minsep/accounting/montecarlo"
)

// Apart is how many standard errors lie between two figures at least where their order is taken
// as known.
const Apart = 3

// searcher looks for σ by one divergence.
type searcher struct {
	Claim
	direction montecarlo.Direction
	pace      Pace // before the first look
	looks     []look
	drawn     uint64
	scale     *Scale
	behind    float64 // σ above which it is enough to know it roughly
	part      float64 // of the samples that a rough estimate may take; 0 for roughShare
	retreats  int     // looks where all samples showed too little
	below     bool    // it is enough to know that the divergence is below δ where it is
}

func (c Claim) searcher(direction montecarlo.Direction, p Pace) (*searcher, error) {
	scale, err := NewScale(c.Epsilon, c.Delta)
	return &searcher{Claim: c, direction: direction, pace: p, scale: scale, behind: math.Inf(1)}, err
}

// sigma searches from start until the standard error of ln σ is at most tolerance, more would take
// too many samples, or it is at most behindError and σ at least behind: a noise multiplier that no
// more need be known of.
func (s *searcher) sigma(ctx context.Context, start, tolerance, behind float64) (Noise, error) {
	s.behind = behind
	x := math.Log(start)
	low, high, raised := math.Inf(-1), math.Inf(1), 0
	for range MaxLooks {
		if err := ctx.Err(); err != nil {
			return Noise{}, err
		}
		short, err := s.look(ctx, x, tolerance)
		if errors.Is(err, ErrNoEstimate) && len(s.looks) == 0 && raised < mostRaised { // there are no tables for so little noise
			raised++
			low, x = x, x+retreat
			continue
		}
		if err != nil {
			return Noise{}, err
		}
		l, f := s.looks[len(s.looks)-1], s.fit()
		enough := tolerance
		switch {
		case short, s.retreats > 0:
			enough = rough
		case s.isBehind(f):
			enough = max(tolerance, behindError)
		}
		told := s.isTold()
		if f.StdErr <= enough && told {
			return s.found(f), nil
		}
		if short {
			hopeless := float64(l.samples) < leastSeen/2*math.Exp(l.logBound)
			if s.retreats == mostRetreats || told || hopeless {
				return Noise{}, fmt.Errorf("%w: more than %d", ErrTooDear, s.drawn)
			}
			s.retreats++
			high = min(high, x)
			x -= retreat
			continue
		}
		if l.gap > Apart*l.gapErr {
			low = max(low, x)
		} else if l.gap < -Apart*l.gapErr {
			high = min(high, x)
		}
		next := within(toward(x, f.X), low, high)
		if slices.ContainsFunc(s.looks, func(l look) bool { return math.Abs(l.x-next) < 1e-9 }) {
			next += tolerance * float64(1+len(s.looks)%2) // the same samples would say nothing new
		}
		x = next
	}
	if f := s.fit(); s.isTold() && f.StdErr <= rough {
		return s.found(f), nil
	}
	return Noise{}, fmt.Errorf("%w: no noise multiplier found near %.4g", ErrNoEstimate, math.Exp(x))
}

// found is the noise multiplier of a solution.
func (s *searcher) found(f Solution) Noise {
	l, multiplier := s.looks[len(s.looks)-1], math.Exp(f.X)
	return Noise{Multiplier: multiplier, StdErr: f.StdErr * multiplier, OneDirection: true, Samples: s.drawn, Effort: math.Exp(l.logBound - l.excess), found: s, pace: f.Pace}
}

// isTold says whether a look tells anything: else nothing is known but a bound.
func (s *searcher) isTold() bool {
	return slices.ContainsFunc(s.looks, func(l look) bool { return l.tells() })
}

// isBehind says whether a fit is clearly above the noise multiplier from which on it need be known
// roughly only.
func (s *searcher) isBehind(f Solution) bool {
	return math.Exp(f.X)*(1-Apart*f.StdErr) > s.behind
}

// within is x where it is between low and high, which may be infinite; else between them, near
// the finite one.
func within(x, low, high float64) float64 {
	switch {
	case x > low && x < high:
		return x
	case math.IsInf(low, -1):
		return high - Far
	case math.IsInf(high, 1):
		return low + Far
	}
	return (low + high) / 2
}

// toward goes from ln σ = x to another, by Farthest at most.
func toward(x, to float64) float64 { return min(x+Farthest, max(x-Farthest, to)) }

package search

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"minsep/accounting/montecarlo"
)

// Apart is the least number of standard errors between two figures at which their order is taken as
// known.
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
	part      float64 // of the samples that a rough estimate may take; 0 for RoughShare
	retreats  int     // looks where all samples showed too little
	tolerance float64 // standard error of ln σ
	at        float64 // ln σ of the last look
	short     bool    // it had too few samples
	raised    int     // looks at noise multipliers without tables
	below     bool    // it is enough to know that the divergence is below δ where it is
}

func (c Claim) searcher(direction montecarlo.Direction, p Pace) (*searcher, error) {
	scale, err := NewScale(c.Epsilon, c.Delta)
	return &searcher{Claim: c, direction: direction, pace: p, scale: scale, behind: math.Inf(1)}, err
}

// sigma searches from start until the standard error of ln σ is at most tolerance, or a smaller one
// would take too many samples. Where σ is clearly above behind, an error of behindError is enough.
func (s *searcher) sigma(ctx context.Context, start, tolerance, behind float64) (Noise, error) {
	s.tolerance, s.behind = tolerance, behind
	err := Walk(ctx, math.Log(start), s)
	if err != nil && !errors.Is(err, ErrLooks) {
		return Noise{}, err
	}
	f := s.fit()
	if err != nil && !(s.isTold() && f.StdErr <= rough) {
		return Noise{}, fmt.Errorf("%w: no noise multiplier found near %.4g", ErrNoEstimate, math.Exp(s.at))
	}
	return s.found(f), nil
}

// Look is part of [Source].
func (s *searcher) Look(ctx context.Context, x float64) (Side, error) {
	s.at = x
	short, err := s.look(ctx, x, s.tolerance)
	if s.short = short; err != nil {
		if errors.Is(err, ErrNoEstimate) && len(s.looks) == 0 && s.raised < mostRetreats { // there are no tables for so little noise
			s.raised++
			return Unseen, nil
		}
		return Unseen, err
	}
	l := s.looks[len(s.looks)-1]
	if short && !s.isDone() {
		hopeless := float64(l.samples) < leastSeen*math.Exp(l.logBound)
		if s.retreats == mostRetreats || s.isTold() || hopeless {
			return Unknown, fmt.Errorf("%w: more than %d", ErrTooDear, s.drawn)
		}
		s.retreats++
		return TooLarge, nil
	}
	switch {
	case l.gap > Apart*l.gapErr:
		return TooSmall, nil
	case l.gap < -Apart*l.gapErr:
		return TooLarge, nil
	}
	return Unknown, nil
}

// isDone says whether the looks so far are enough.
func (s *searcher) isDone() bool {
	_, done := s.Goal()
	return done
}

// Goal is part of [Source].
func (s *searcher) Goal() (x float64, done bool) {
	if len(s.looks) == 0 {
		return s.at + Farthest, false
	}
	f, enough := s.fit(), s.tolerance
	switch {
	case s.short, s.retreats > 0:
		enough = rough
	case s.isBehind(f):
		enough = max(s.tolerance, behindError)
	}
	if f.StdErr <= enough && s.isTold() {
		return f.X, true
	}
	if s.short {
		return s.at - Retreat, false
	}
	return f.X, false
}

// Fits is part of [Source]: look says whether its samples are too many.
func (s *searcher) Fits(float64) bool { return true }

// Extend is part of [Source].
func (s *searcher) Extend() bool { return false }

// found is the noise multiplier of a solution.
func (s *searcher) found(f Solution) Noise {
	l, multiplier := s.looks[len(s.looks)-1], math.Exp(f.X)
	return Noise{Multiplier: multiplier, StdErr: f.StdErr * multiplier, OneDirection: true, Samples: s.drawn, Effort: math.Exp(l.logBound - l.excess), found: s, pace: f.Pace}
}

// isTold says whether any look tells something. Otherwise only a bound is known.
func (s *searcher) isTold() bool {
	return slices.ContainsFunc(s.looks, func(l look) bool { return l.tells() })
}

// isBehind says whether a fit is clearly above s.behind: it need then be known only roughly.
func (s *searcher) isBehind(f Solution) bool {
	return math.Exp(f.X)*(1-Apart*f.StdErr) > s.behind
}

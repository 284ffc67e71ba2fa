package search

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// scripted is a source with a known solution.
type scripted struct {
	solution float64 // ln σ
	off      float64 // of the goal, as a part of its distance: a curve with a wrong pace
	enough   float64 // distance at which the search ends
	unseen   float64 // ln σ below which there is no look
	fits     func(x float64) bool
	more     int // times that the budget can be extended

	looked []float64
}

func (s *scripted) Look(_ context.Context, x float64) (Side, error) {
	s.looked = append(s.looked, x)
	switch {
	case x < s.unseen:
		return Unseen, nil
	case x < s.solution-.05:
		return TooSmall, nil
	case x > s.solution+.05:
		return TooLarge, nil
	}
	return Unknown, nil
}

func (s *scripted) last() float64 { return s.looked[len(s.looked)-1] }

func (s *scripted) Goal() (x float64, done bool) {
	if s.last() < s.unseen {
		return s.last() + Farthest, false
	}
	return s.solution + s.off*(s.last()-s.solution), math.Abs(s.last()-s.solution) <= s.enough
}

func (s *scripted) Fits(x float64) bool { return s.fits == nil || s.fits(x) }

func (s *scripted) Extend() bool {
	s.more--
	if s.more >= 0 {
		s.fits = nil
	}
	return s.more >= 0
}

// TestWalk: a search comes to the solution from anywhere, by goals that overshoot too, looks at no
// noise multiplier twice, none outside what is known to be too small or too large, and none farther
// from the others than a curve tells.
func TestWalk(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		s := &scripted{solution: rng.NormFloat64(), off: 1.4*rng.Float64() - .7, enough: .02, unseen: math.Inf(-1)}
		if rng.IntN(3) == 0 {
			s.unseen = s.solution - rng.Float64()
		}
		err := Walk(t.Context(), s.solution+2*rng.NormFloat64()/2, s)
		if err != nil || math.Abs(s.last()-s.solution) > s.enough {
			t.Fatalf("%+v: %v", s, err)
		}
		low, high := math.Inf(-1), math.Inf(1)
		var seen []float64
		for i, x := range s.looked {
			if x <= low || x >= high || slices.ContainsFunc(seen, func(of float64) bool { return IsNear(of, x) }) {
				t.Fatalf("look %d of %v, the solution is %g", i, s.looked, s.solution)
			}
			if len(seen) > 0 && (x < slices.Min(seen)-Farthest-1e-9 || x > slices.Max(seen)+Farthest+1e-9) {
				t.Fatalf("look %d of %v is far from the others", i, s.looked)
			}
			switch {
			case x < s.unseen, x < s.solution-.05:
				low = max(low, x)
			case x > s.solution+.05:
				high = min(high, x)
			}
			if x >= s.unseen {
				seen = append(seen, x)
			}
		}
	}
}

// TestWalkWithinABudget: a look that does not fit is replaced by the nearest one that does; where
// none does, the budget is extended, and else the search ends with what it knows.
func TestWalkWithinABudget(t *testing.T) {
	above := func(x float64) bool { return x > .35 }
	for _, c := range []struct {
		name  string
		start float64
		more  int
		last  float64
	}{
		{"the nearest that fits", 1, 0, .36},
		{"extended", .5, 1, .3},
	} {
		s := &scripted{solution: .3, enough: .001, unseen: math.Inf(-1), fits: above, more: c.more}
		if c.more > 0 {
			s.fits = func(float64) bool { return false }
		}
		if err := Walk(t.Context(), c.start, s); err != nil || math.Abs(s.last()-c.last) > Step {
			t.Errorf("%s: %v, %v", c.name, s.looked, err)
		}
	}
}

// TestLooksGoOnAboveAll: where nothing near the only look fits, since its M is large, the next
// looks are above it, where M is less, and end soon.
func TestLooksGoOnAboveAll(t *testing.T) {
	r := reach{low: math.Inf(-1), high: math.Inf(1)}
	r.add(.45, Unknown)
	never := func(float64) bool { return false }
	seen := .45
	for range 3 { // each of them takes too many samples
		next, ok := r.next(2, never)
		if !ok || next <= seen || next > .45+2*Farthest+1e-9 {
			t.Fatalf("after %g: %g, %v", seen, next, ok)
		}
		r.add(next, Unseen)
		seen = next
	}
	r.add(.45+2*Farthest, Unseen)
	if next, ok := r.next(2, never); ok {
		t.Errorf("%g is tried, without an end", next)
	}
}

// TestWalkEnds: a search that does not converge ends, and one that is stopped does.
func TestWalkEnds(t *testing.T) {
	s := &scripted{solution: 40, unseen: math.Inf(-1)}
	if err := Walk(t.Context(), 0, s); !errors.Is(err, ErrLooks) || len(s.looked) != MaxLooks {
		t.Errorf("%d looks, %v", len(s.looked), err)
	}
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := Walk(ctx, 0, s); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

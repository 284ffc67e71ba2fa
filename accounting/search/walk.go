package search

import (
	"context"
	"errors"
	"math"
	"slices"
)

// Source is a divergence that a search asks for at noise multipliers: by tilted samples with
// tables, by plain samples, or by bounds without samples. It keeps the looks that it took.
type Source interface {
	// Look looks at ln σ = x, with the number of samples that the tolerance and the budget of the
	// source say. It returns the side of the solution on which σ is. An error ends the search.
	Look(ctx context.Context, x float64) (Side, error)

	// Goal is the ln σ to look at next, by all looks so far; done says that they are enough.
	Goal() (x float64, done bool)

	// Fits says whether the budget allows a look at ln σ = x.
	Fits(x float64) bool

	// Extend makes the budget larger where that is possible, for a search that has no look left.
	Extend() bool
}

// Side is the place of a noise multiplier beside the solution, as far as a look knows it.
type Side int

// Sides.
const (
	Unknown Side = iota
	TooSmall
	TooLarge // or too large for a look to show enough
	Unseen   // too small for any look: there are no tables, or too few samples
)

const (
	// Step is the least distance of looks in ln σ, as in arXiv 2602.09338, Algorithm 5.
	Step = 0.01

	// MaxLooks ends a search that does not converge.
	MaxLooks = 20
)

// ErrLooks says that a search did not converge.
var ErrLooks = errors.New("search: too many looks")

// Walk asks a source from ln σ = x on until it knows enough, or its budget allows no other look.
// The noise multipliers do not depend on who asks, or for which purpose: only on the source.
func Walk(ctx context.Context, x float64, s Source) error {
	r := reach{low: math.Inf(-1), high: math.Inf(1)}
	for range MaxLooks {
		if err := ctx.Err(); err != nil {
			return err
		}
		side, err := s.Look(ctx, x)
		if err != nil {
			return err
		}
		r.add(x, side)
		goal, done := s.Goal()
		if done {
			return nil
		}
		next, ok := r.next(goal, s.Fits)
		if !ok && s.Extend() {
			next, ok = r.next(goal, s.Fits)
		}
		if !ok {
			return nil
		}
		x = next
	}
	return ErrLooks
}

// reach is the interval in which a search goes on.
type reach struct {
	low, high float64   // the solution is between them, in ln σ
	looked    []float64 // ln σ of the looks that told anything, rising
}

func (r *reach) add(x float64, side Side) {
	switch side {
	case TooSmall:
		r.low = max(r.low, x)
	case TooLarge:
		r.high = min(r.high, x)
	case Unseen:
		r.low = max(r.low, x)
		return
	}
	i, _ := slices.BinarySearch(r.looked, x)
	r.looked = slices.Insert(r.looked, i, x)
}

// next is the ln σ of the next look: the goal or, where that is outside the interval or was looked
// at, the nearest one beside it that fits, at most Farthest from the looks so far. ok says that
// there is one.
func (r *reach) next(goal float64, fits func(x float64) bool) (next float64, ok bool) {
	if len(r.looked) == 0 {
		return goal, true
	}
	least, most := r.looked[0], r.looked[len(r.looked)-1]
	at := max(min(goal, r.high-Step), least-Farthest, r.low+Step)
	if at = min(at, most+Farthest); at >= r.high {
		at = (r.low + r.high) / 2
	}
	free := func(x float64) bool {
		known := slices.ContainsFunc(r.looked, func(of float64) bool { return IsNear(of, x) })
		return x > r.low && x < r.high && !known && fits(x)
	}
	for off := 0.0; off < Far; off += Step {
		for _, x := range []float64{at - off, at + off} {
			if free(x) {
				return x, true
			}
		}
	}
	// All places around at are taken or too dear. Take the first one above it that the budget
	// affords, as long as it is below all looks so far, and so nearer to the goal than they are.
	for x := at + Far; x < least-Step; x += Step {
		if free(x) {
			return x, true
		}
	}
	// Above all looks M is less than they say, so that another look tells something. It draws nothing
	// where it would take too many samples.
	if x := max(at, r.low+Far); goal > most && x <= most+2*Farthest {
		return x, true
	}
	return 0, false
}

// IsNear says whether two ln σ are nearer to each other than looks are: a second one would tell
// nothing new.
func IsNear(a, b float64) bool { return math.Abs(a-b) < Step/2 }

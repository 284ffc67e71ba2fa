package tilt

import (
	"context"
	"slices"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
)

// family is a distribution of participation, with the parts that tilting needs of it.
type family interface {
	// affordable reports whether an order is worth its time.
	affordable(s montecarlo.Spec, order int) bool
	// source makes the tables of an order, of at most so many states times steps. Tuples can be drawn
	// from them only if most is 0, which sets no limit.
	source(ctx context.Context, s montecarlo.Spec, columns *likelihood.Columns, order int, most float64) (*source, error)
	// work is about the number of states times steps of the tables of an order; 0 if it is small.
	work(s montecarlo.Spec, order int) float64
}

// familyOf is the family of a spec, or nil where it is sampled plainly. Rotation whose columns overlap
// does not fit in tables by steps: at 64 bands a step has 1,056 labels. Its pairs and triples are
// summed by periods.
func familyOf(s montecarlo.Spec) family {
	if s.Law == nil {
		return nil
	}
	if period, ok := rotationOf(s); ok {
		return rotation{period}
	}
	if once, ok := singleOf(s); ok {
		return once
	}
	return newLawFamily(s)
}

// source is the tables of one order: they know the total weight of its tuples, and draw them.
type source struct {
	// lnN is ln N_θ as it was computed. raised bounds the rounding errors in lnN and in the densities.
	lnN, raised float64

	// work is the number of states times steps that were computed for a table of tuples.
	work float64

	// version is tupleTables for a table of tuples of an order above 1, and 0 for others.
	version int

	// walkError bounds the total variation between the distribution of the tuples that are drawn and
	// the exact one.
	walkError float64

	// walker returns a walk for one goroutine. It is nil where no tuples of this order can be drawn.
	walker func() walk

	// above, unless nil, makes the tables of a higher order from these, or returns nil where they do
	// not help.
	above func(order int) (*source, error)
}

// walk sets hits[:0] to one tuple and returns it with its weight, by which the value of the sample
// is multiplied. The weight is 1 with exact tables, and at most 1 with others.
type walk func(hits []kernel.Hit, u *kernel.Uniforms) ([]kernel.Hit, float64)

// exactly is the walker of tuples without weights.
func exactly(draw func(hits []kernel.Hit, u *kernel.Uniforms) []kernel.Hit) func() walk {
	return func() walk {
		return func(hits []kernel.Hit, u *kernel.Uniforms) ([]kernel.Hit, float64) { return draw(hits, u), 1 }
	}
}

// sourceAbove makes the tables of an order, with the tables of a lower one where these help.
func sourceAbove(
	ctx context.Context,
	lower *source,
	s montecarlo.Spec,
	columns *likelihood.Columns,
	order int,
	most float64,
) (*source, error) {
	if lower != nil && lower.above != nil {
		if s, err := lower.above(order); s != nil || err != nil {
			return s, err
		}
	}
	return familyOf(s).source(ctx, s, columns, order, most)
}

// logN is ln N_θ, rounded upward.
func (s *source) logN() float64 { return s.lnN + s.raised }

// pick returns the index that a number in (0,1) falls on, given partial sums.
func pick(sums []float64, u float64) int {
	i, _ := slices.BinarySearch(sums, u*sums[len(sums)-1])
	return i
}

// addHit adds one participation to hits, which are sorted by step.
func addHit(hits []kernel.Hit, step int) []kernel.Hit {
	at, found := slices.BinarySearchFunc(hits, step, func(h kernel.Hit, step int) int { return h.Step - step })
	if found {
		hits[at].Times++
		return hits
	}
	return slices.Insert(hits, at, kernel.Hit{Step: step, Times: 1})
}

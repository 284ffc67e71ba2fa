package tilt

import (
	"context"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/montecarlo/internal/tuples"
	"minsep/sampling"
)

// lawFamily is any law, by tables of tuples (F5.3).
type lawFamily struct {
	law   *sampling.Table
	alike bool // the law is the same at every step
}

func newLawFamily(s montecarlo.Spec) lawFamily {
	return lawFamily{law: s.Law, alike: len(s.Law.Rows) == 1}
}

func (f lawFamily) affordable(s montecarlo.Spec, order int) bool {
	// Orders that cannot be kept are of no use.
	return f.work(s, order) <= f.limit(s, order) && (order <= 3 || f.alike || f.kept(s, order) <= maxTableBytes)
}

// limit is the largest work of tables of an order.
func (f lawFamily) limit(s montecarlo.Spec, order int) float64 {
	switch {
	case order <= 3:
		return maxLowWork
	case f.alike:
		return maxAlikeWork
	case s.MaxExamplesPerOwner > 1:
		return maxOwnersWork
	}
	return maxOrderWork
}

// kept is about the size of a table of an order that keeps all its slices.
func (f lawFamily) kept(s montecarlo.Spec, order int) float64 {
	return 8 * f.work(s, order)
}

func (f lawFamily) source(
	ctx context.Context,
	s montecarlo.Spec,
	columns *likelihood.Columns,
	order int,
	most float64,
) (*source, error) {
	o := tuples.Options{Keep: most == 0, MaxBytes: maxTableBytes}
	if most > 0 {
		o.MostWork = min(beyondEstimate*min(most, f.limit(s, order)), maxLowWork)
	}
	if order <= 3 {
		o.MaxBytes = maxLowBytes
	}
	return newTableSource(ctx, f.law, columns, s.Factor(), order, o)
}

// work takes the columns of an example to end before it may take part again. Tables of more bands are
// larger, and end at the limit of [lawFamily.source].
func (f lawFamily) work(s montecarlo.Spec, order int) float64 {
	return tuples.Count(tuples.Labels(s.Law, s.Strategy.Bands()), order-1) * float64(s.Steps())
}

// blockSizes are the useful lengths of blocks, from the longest down: none if an example takes part
// for sure whenever it may, where exact tables have few ways on.
func (f lawFamily) blockSizes(s montecarlo.Spec) (sizes []int) {
	if f.alike && f.law.Rows[0][0].Complement() == 0 {
		return nil
	}
	if f.alike { // the divisors of min-sep
		for size := s.MinSep(); size >= 1; size-- {
			if s.MinSep()%size == 0 {
				sizes = append(sizes, size)
			}
		}
		return sizes
	}
	for parts := 1; parts <= maxBlockParts; parts++ { // the shortest for each number that hold the last min-sep - 1 steps
		if size := max(1, (s.MinSep()-2+parts)/parts); len(sizes) == 0 || size < sizes[len(sizes)-1] {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// blockWork is about how many multiplications a table in blocks takes. It has a label for each of
// the last blocks, one for free copies, one for those that may be free, and one for those that wait
// for the next epoch. A choice splits the free ones. Moves are made anew for each step of a block,
// and used at few steps if the law is the same at every step.
func (f lawFamily) blockWork(s montecarlo.Spec, order, size int) float64 {
	labels, steps := (s.MinSep()+size-1)/size+3, float64(s.Steps())
	if f.alike {
		labels, steps = labels-1, min(steps, float64(8*s.MinSep()))
	}
	return tuples.Count(labels+1, order) * (steps + moveWork*float64(size))
}

package tilt

import (
	"math"

	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/internal/law"
	"minsep/accounting/montecarlo/internal/likelihood"
)

// lawFamily is any scheme with a law: by tables of tuples (F5.3, F5.5), or in closed form
// where an example takes part at most once (F5.6).
type lawFamily struct {
	law   law.Law
	alike bool // the law is the same at every step
}

func newLawFamily(s montecarlo.Spec) (f lawFamily, ok bool) {
	l := s.Law()
	if l == nil {
		return f, false
	}
	return lawFamily{law: l, alike: law.Alike(l, s.Steps)}, true
}

func (lawFamily) separated() bool { return true }

func (f lawFamily) affordable(s montecarlo.Spec, order int) bool {
	if once, ok := singleOf(s); ok {
		return onceAffordable(s, once, order)
	}
	limit := maxOrderWork
	switch {
	case order <= 3:
		limit = maxLowWork
	case f.alike:
		limit = maxAlikeWork
	case s.MaxExamplesPerOwner > 1:
		limit = maxOwnersWork
	}
	// Orders that cannot be kept are of no use.
	return f.work(s, order) <= limit && (order <= 3 || f.alike || f.kept(s, order) <= maxTableBytes)
}

// kept is about the size of a table of an order that keeps its slices.
func (f lawFamily) kept(s montecarlo.Spec, order int) float64 {
	return keptBytes(f.law, s.Steps, order)
}

func (f lawFamily) source(s montecarlo.Spec, columns *likelihood.Columns, order int, keep bool, watch watcher) (*source, error) {
	if once, ok := singleOf(s); ok {
		return newOnceSource(once, s, columns, order, keep, watch)
	}
	r := room{keep: keep, maxBytes: f.maxBytes(s, order), state: stateBytes, passing: min(s.MinSep+2, s.Steps+1), watch: watch}
	switch _, kinds := f.law.Kind(0); {
	case f.alike:
		r.state, r.steady = 0, true
	case kinds > 1:
		r.passing = min(2*s.MinSep+3, s.Steps+1)
	}
	t, err := newTuples(f.law, s.Steps, order, newGram(columns, s.MinSep, s.Factor()), r)
	if err != nil {
		return nil, err
	}
	return t.source(0), nil
}

// maxBytes is the bound for an order.
func (f lawFamily) maxBytes(s montecarlo.Spec, order int) int {
	switch {
	case f.alike:
		return tableBytes(s.Steps, s.MinSep, order)
	case order <= 3:
		return maxLowBytes
	}
	return maxTableBytes
}

// tableBytes is the limit of bytes of a table, for an order of a law that is the same at every
// step. Where there are too few steps for a steady rate, the limit of order 2 allows n·b = 1.3e8.
func tableBytes(steps, sep, order int) int {
	if order == 2 && steps < steadySteps*sep {
		return maxPairBytes
	}
	return maxTableBytes
}

// drawable implements [family]. A table from which tuples are drawn keeps every step, so it cannot
// use the steady rate.
func (f lawFamily) drawable(s montecarlo.Spec, order int) bool {
	if _, ok := singleOf(s); ok {
		return true
	}
	return !f.alike && f.kept(s, order) <= maxTableBytes
}

func (f lawFamily) work(s montecarlo.Spec, order int) float64 {
	if once, ok := singleOf(s); ok {
		return onceWork(s, once, order)
	}
	return sliceSize(f.law, order) * float64(s.Steps)
}

func (f lawFamily) posterior(s montecarlo.Spec, columns *likelihood.Columns) posterior {
	return likelihood.NewChainPosterior(f.law, columns.SquaredNorms(s.Factor()))
}

// cut is how a run is cut into blocks of a size.
func (f lawFamily) cut(size int) cut {
	if every := f.law.FreeUntil(0); every < math.MaxInt {
		return cut{size: size, every: every, maxBytes: maxBlockBytes}
	}
	return cut{size: size, steady: f.alike, maxBytes: maxBlockBytes}
}

// blockSizes are the useful lengths of blocks, from the longest down.
func (f lawFamily) blockSizes(s montecarlo.Spec) (sizes []int) {
	if f.alike { // the divisors of min-sep
		for size := s.MinSep; size >= 1; size-- {
			if s.MinSep%size == 0 {
				sizes = append(sizes, size)
			}
		}
		return sizes
	}
	for parts := 1; parts <= maxBlockParts; parts++ { // the shortest for each number that hold the last min-sep - 1 steps
		if size := max(1, (s.MinSep-2+parts)/parts); len(sizes) == 0 || size < sizes[len(sizes)-1] {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

// blockWork is about how many multiplications a table in blocks takes.
func (f lawFamily) blockWork(s montecarlo.Spec, order, size int) float64 {
	c := f.cut(size)
	o, err := newOutline(f.law, s.Steps, c, order, maxBlockWork, nil)
	if err != nil {
		return math.Inf(1)
	}
	return o.work(order, c.steady)
}

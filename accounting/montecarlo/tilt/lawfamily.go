package tilt

import (
	"math"

	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/internal/law"
	"minsep/accounting/montecarlo/internal/likelihood"
)

// lawFamily is any scheme with a law: by tables of tuples (F5.3, F5.5, F5.5k), or in closed form
// where an example takes part at most once (F5.6).
type lawFamily struct {
	law   law.Law
	free  int     // labels that are free
	alike bool    // the law is the same at every step
	times float64 // participations, expected; of a law with several free labels
}

func newLawFamily(s montecarlo.Spec) (f lawFamily, ok bool) {
	l := s.Law()
	if l == nil {
		return f, false
	}
	f = lawFamily{law: l, free: countFree(l), alike: law.Alike(l, s.Steps)}
	if f.free > 1 {
		for _, rate := range law.NewChain(l, s.Steps).Rates() {
			f.times += rate
		}
	}
	return f, true
}

func (lawFamily) separated() bool { return true }

func (f lawFamily) affordable(s montecarlo.Spec, order int) bool {
	if once, ok := singleOf(s); ok && (!once.Rounded || order <= maxOnceOrder) {
		return onceAffordable(s, once, order)
	}
	work, limit := f.work(s, order), maxOrderWork
	switch {
	case order <= 3:
		limit = maxLowWork
	case f.alike:
		limit = maxAlikeWork
	case f.free == 1 && s.MaxExamplesPerOwner > 1:
		limit = maxOwnersWork
	}
	if f.free > 1 { // more where several replicas are free
		work = countMoves(f.law, order) / 2 * float64(s.Steps)
	}
	// Orders that cannot be kept are of no use.
	return work <= limit && (order <= 3 || f.alike || f.free > 1 || f.kept(s, order) <= maxTableBytes)
}

// kept is about the size of a table of an order that keeps its slices.
func (f lawFamily) kept(s montecarlo.Spec, order int) float64 {
	return keptBytes(f.law, s.Steps, order)
}

func (f lawFamily) source(s montecarlo.Spec, columns *likelihood.Columns, order int, keep bool, watch watcher) (*source, error) {
	if once, ok := singleOf(s); ok {
		if o, err := newOnceSource(once, s, columns, order, keep, watch); err == nil || !once.Rounded {
			return o, err
		}
	}
	r := room{keep: keep, maxBytes: f.maxBytes(s, order), state: stateBytes, passing: min(s.MinSep+2, s.Steps+1), watch: watch}
	switch _, kinds := f.law.Kind(0); {
	case f.alike && f.free == 1:
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
	case f.alike && f.free == 1:
		return tableBytes(s.Steps, s.MinSep, order)
	case f.free == 1 && order <= 3:
		return maxLowBytes
	case f.free > 1 && order == 2:
		return maxPairBytes
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
	if once, ok := singleOf(s); ok && (!once.Rounded || order <= maxOnceOrder) {
		return true
	}
	return !(f.alike && f.free == 1) && f.kept(s, order) <= maxTableBytes
}

func (f lawFamily) work(s montecarlo.Spec, order int) float64 {
	if once, ok := singleOf(s); ok && !once.Rounded {
		return onceWork(s, once, order)
	}
	return sliceSize(f.law, order) * float64(s.Steps)
}

func (f lawFamily) posterior(s montecarlo.Spec, columns *likelihood.Columns) posterior {
	return likelihood.NewChainPosterior(f.law, columns.SquaredNorms(s.Factor()))
}

// tupleTime is about the time in ns to draw a tuple where several labels are free: at each
// participation the walk chooses among all subsets of the free replicas. It is 0 with one free
// label, and for at most one participation.
func (f lawFamily) tupleTime(order int) float64 {
	times := math.Ceil(f.times - countError)
	if f.free == 1 || times <= 1 {
		return 0
	}
	return 100 * times * float64(order) * math.Exp2(float64(order))
}

// countError is more than rounding changes in the number of participations that are expected.
const countError = 1e-6

// coupled says that there may be tables of couples: several labels are free, and labels change
// alike at every step and count down while they wait.
func (f lawFamily) coupled() bool {
	if _, kinds := f.law.Kind(0); f.free == 1 || kinds > 1 || f.law.AllFreeAt(0) >= 0 {
		return false
	}
	for x := range f.law.Labels() {
		if !f.law.Free(x) && f.law.Enter(x, 0, false) != x-1 {
			return false
		}
	}
	return true
}

// cut is how a run is cut into blocks of a size.
func (f lawFamily) cut(size int) cut {
	switch every := f.law.FreeUntil(0); {
	case f.free > 1:
		return cut{size: size, merged: coarseness, maxBytes: maxPairBytes}
	case every < math.MaxInt:
		return cut{size: size, every: every, maxBytes: maxBlockBytes}
	}
	return cut{size: size, steady: f.alike, maxBytes: maxBlockBytes}
}

// blockSizes are the useful lengths of blocks, from the longest down.
func (f lawFamily) blockSizes(s montecarlo.Spec) (sizes []int) {
	switch {
	case f.free > 1: // the shortest that order 3 can afford, where it has no exact table: higher orders are of no use
		if f.kept(s, 3) <= maxTableBytes {
			return nil
		}
		size := max(1, s.MinSep/8)
		for size > 1 && f.blockWork(s, 3, size/2) <= f.maxBlockWork() {
			size /= 2
		}
		return []int{size}
	case f.alike: // the divisors of min-sep
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
	o, err := newOutline(f.law, s.Steps, c, order, f.maxBlockWork(), nil)
	if err != nil {
		return math.Inf(1)
	}
	return o.work(order, c.steady)
}

// maxBlockWork bounds the multiplications of a table in blocks. The bound is ten times as high
// where several labels are free, since such laws have no other tables.
func (f lawFamily) maxBlockWork() float64 {
	if f.free > 1 {
		return maxBlockWork
	}
	return maxBlockWork / 10
}

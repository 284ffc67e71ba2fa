package tilt

import (
	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/internal/kernel"
	"minsep/accounting/montecarlo/internal/law"
	"minsep/accounting/montecarlo/internal/likelihood"
)

// family is a distribution of participation, with the parts that tilting needs of it.
type family interface {
	// separated says that the strategy must have at most min-sep bands.
	separated() bool
	// affordable reports whether an order is worth its time.
	affordable(s montecarlo.Spec, order int) bool
	// source makes the tables of an order; only with keep can tuples be drawn from them. watch,
	// if not nil, is told of the work as it is done, in all at most the value of work.
	source(s montecarlo.Spec, columns *likelihood.Columns, order int, keep bool, watch func(float64)) (source, error)
	// drawable says whether the tables of an order that tuples can be drawn from take no longer than
	// others, and no more memory than a plan has for tables that it may not need.
	drawable(s montecarlo.Spec, order int) bool
	// work is the number of states times steps of the tables of an order; 0 where it is too
	// small to be reported.
	work(s montecarlo.Spec, order int) float64
	// posterior is the posterior of one example.
	posterior(s montecarlo.Spec, columns *likelihood.Columns) posterior
}

// raising is a family that makes the tables of an order faster beside the tables of a lower
// one.
type raising interface {
	// above makes the tables of an order, with the tables of a lower one for the same
	// parameters.
	above(lower source, s montecarlo.Spec, columns *likelihood.Columns, order int) (source, error)
}

// raisable is a source that makes a source of a higher order from its own tables.
type raisable interface {
	raisable(order int) bool
	raise(order int) (source, error)
}

// familyOf is the family of a spec, or nil where it is sampled plainly.
func familyOf(s montecarlo.Spec) family {
	switch s.Scheme {
	case montecarlo.BallsInBins:
		return ballsInBins{}
	case montecarlo.Rotation:
		return rotation{}
	}
	if f, ok := newLawFamily(s); ok {
		return f
	}
	return nil
}

// source draws tuples of one order and knows their total weight.
type source interface {
	// logN is ln N_θ, raised by a bound of the rounding errors in it and in the densities.
	logN() float64
	// walkError bounds the total variation between tuples and their distribution.
	walkError() float64
	// walkable says whether tuples of this order can be drawn.
	walkable() bool
	// walker returns a function that sets hits to one tuple. It is for one goroutine.
	walker() func(hits []kernel.Hit, u *uniforms) []kernel.Hit
}

// tupleSource is a table of tuples.
type tupleSource struct {
	table *tuples
	err   float64 // relative error of N_θ beside [tuples.roundingBound]
}

func newTupleSource(l law.Law, s montecarlo.Spec, columns *likelihood.Columns, order int, r room) (source, error) {
	t, err := newTuples(l, s.Steps, order, newGram(columns, s.MinSep, 1/(s.NoiseMultiplier*s.NoiseMultiplier)), r)
	return tupleSource{table: t}, err
}

func (s tupleSource) logN() float64 {
	if s.table.theta == 1 {
		return 0
	}
	return s.table.lnN + max(inflation, 2*(s.table.roundingBound()+s.err))
}

// walkError: a step of the walk adds the errors that rounding, and U in place of V, make in the
// probability of a participation.
func (s tupleSource) walkError() float64 { return float64(s.table.steps) * (s.table.residual + 4e-15) }

func (s tupleSource) walkable() bool { return s.table.walkable }

func (s tupleSource) walker() func(hits []kernel.Hit, u *uniforms) []kernel.Hit {
	return newWalker(s.table).walk
}

// ballsInBins is balls-in-bins sampling, by the weights of tuples of bins.
type ballsInBins struct{}

func (ballsInBins) separated() bool { return false }

// affordable: there are no others.
func (ballsInBins) affordable(_ montecarlo.Spec, order int) bool { return order <= 3 }

func (ballsInBins) source(s montecarlo.Spec, columns *likelihood.Columns, order int, _ bool, _ func(float64)) (source, error) {
	return ballsInBins{}.above(nil, s, columns, order)
}

func (ballsInBins) drawable(montecarlo.Spec, int) bool { return true }

func (ballsInBins) above(lower source, s montecarlo.Spec, columns *likelihood.Columns, order int) (source, error) {
	below, _ := lower.(binSource)
	b, err := newBins(columns, s.MinSep, order, 1/(s.NoiseMultiplier*s.NoiseMultiplier), below.bins)
	return binSource{b}, err
}

func (ballsInBins) posterior(s montecarlo.Spec, columns *likelihood.Columns) posterior {
	return newBinPosterior(columns, s.MinSep, 1/(s.NoiseMultiplier*s.NoiseMultiplier))
}

func (ballsInBins) work(montecarlo.Spec, int) float64 { return 0 }

// binSource are tuples of bins.
type binSource struct{ bins *bins }

func (s binSource) logN() float64 {
	if s.bins.order == 1 {
		return 0
	}
	return s.bins.logN + inflation
}

func (s binSource) walkError() float64 { return 1e-12 }

func (s binSource) walkable() bool { return true }

func (s binSource) walker() func(hits []kernel.Hit, u *uniforms) []kernel.Hit { return s.bins.draw }

// onceSource are tuples of examples that take part at most once.
type onceSource struct{ *once }

func (s onceSource) logN() float64 {
	if s.order == 1 {
		return 0
	}
	return s.once.logN + max(inflation, 2*s.rounding) + 2*s.rounded()
}

// rounded is by how much the probability of a pattern may be off, relative to it.
func (s onceSource) rounded() float64 {
	if s.once.Rounded {
		return 1e-10 * float64(s.order)
	}
	return 0
}

// walkError: the weights, and at most seven draws from sums of n or fewer entries.
func (s onceSource) walkError() float64 {
	return s.rounding + 8*float64(s.steps+8)*0x1p-53 + s.rounded()
}

func (s onceSource) walkable() bool { return true }

func (s onceSource) walker() func(hits []kernel.Hit, u *uniforms) []kernel.Hit { return s.draw }

package tilt

import (
	"math"

	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/internal/law"
	"minsep/accounting/montecarlo/internal/likelihood"
)

// balancedMinSep is balanced min-sep (F3.9), by the tables of F5.5k, or in closed form where an
// example takes part at most once.
type balancedMinSep struct{}

func (balancedMinSep) separated() bool { return true }

// affordable: states of the table times steps, 10 ns each, and more where several replicas are
// free.
func (balancedMinSep) affordable(s montecarlo.Spec, order int) bool {
	if s.Participations <= 1 && order <= 3 {
		return true // newOnce refuses tables that are too large
	}
	limit := 3e7
	if order <= 3 {
		limit = 1e9
	}
	return countMoves(law.Balanced{Distribution: s.Balanced()}, order)/2*float64(s.Steps) <= limit
}

// tupleTime: a choice among all subsets of the free replicas at each participation.
func (balancedMinSep) tupleTime(s montecarlo.Spec, order int) float64 {
	if s.Participations <= 1 {
		return 0
	}
	return 100 * float64(s.Balanced().Most*order) * math.Exp2(float64(order))
}

func (balancedMinSep) source(s montecarlo.Spec, columns *likelihood.Columns, order int, keep bool, _ func(float64)) (source, error) {
	if s.Participations <= 1 {
		// At most once, each step with probability κ/n: b-min-sep with min-sep n and p/(1+(n-1)p) =
		// κ/n.
		once, n := s, float64(s.Steps)
		once.Scheme, once.MinSep, once.WarmStart, once.Participations, once.Hazards = montecarlo.BMinSep, s.Steps, true, 0, ""
		once.Prob = s.Participations / (n - s.Participations*(n-1))
		if o, err := newOnce(once, columns, order); err == nil {
			return roundedOnce{onceSource{o}}, nil
		}
	}
	maxBytes := maxTableBytes
	if order == 2 {
		maxBytes = maxPairBytes
	}
	l := law.Balanced{Distribution: s.Balanced()}
	return newTupleSource(l, s, columns, order, room{keep: keep, maxBytes: maxBytes, state: stateBytes, passing: min(l.MinSep+2, s.Steps+1)})
}

func (balancedMinSep) drawable(s montecarlo.Spec, order int) bool {
	return s.Participations <= 1 && order <= 3 || keptBytes(law.Balanced{Distribution: s.Balanced()}, s.Steps, order) <= maxTableBytes
}

// work is told of when an order's table is made.
func (balancedMinSep) work(s montecarlo.Spec, order int) float64 {
	return sliceSize(law.Balanced{Distribution: s.Balanced()}, order) * float64(s.Steps)
}

func (balancedMinSep) posterior(s montecarlo.Spec, columns *likelihood.Columns) posterior {
	return classPosterior{likelihood.NewClassPosterior(s.Balanced(), columns.SquaredNorms(1/(s.NoiseMultiplier*s.NoiseMultiplier)))}
}

// roundedOnce is a closed form for hazards that are rounded: each pattern's probability is off by
// less than 1e-10 of it.
type roundedOnce struct{ onceSource }

func (s roundedOnce) logN() float64 {
	if s.order == 1 {
		return 0
	}
	return s.onceSource.logN() + 2e-10*float64(s.order)
}

func (s roundedOnce) walkError() float64 { return s.onceSource.walkError() + 1e-10*float64(s.order) }

// classPosterior is the posterior of balanced min-sep (F5.8).
type classPosterior struct{ *likelihood.ClassPosterior }

func (p classPosterior) given(u, participates []float64) float64 { return p.Given(u, participates) }

// logNever: an example that does not take part even once of at most once.
func (p classPosterior) logNever() float64 {
	if _, less := p.Starts(); p.Most == 1 && less > 0 {
		return math.Log(less) - tangentRounding
	}
	return math.Inf(-1)
}

package tilt

import (
	"math"

	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/internal/law"
	"minsep/accounting/montecarlo/internal/likelihood"
)

// epochMinSep is epoch min-sep (F3.8), by the tables of F5.5, or in closed form where an epoch is
// as long as the run.
type epochMinSep struct{}

func (epochMinSep) separated() bool { return true }

// affordable: states of the table times steps, some 50 ns each, so that orders above 3 of several
// examples are left to blocks where they take long. Orders that cannot be kept are of no use.
func (epochMinSep) affordable(s montecarlo.Spec, order int) bool {
	if once, ok := atMostOnce(s); ok {
		return onceAffordable(once, order)
	}
	limit := 3e7
	switch {
	case order <= 3:
		limit = 1e9
	case s.MaxExamplesPerOwner > 1:
		limit = 6e6
	}
	kept := order <= 3 || keptBytes(epochLaw(s), s.Steps, order) <= maxTableBytes
	return kept && countStates(order, s.MinSep+1)*float64(s.Steps) <= limit
}

func (epochMinSep) source(s montecarlo.Spec, columns *likelihood.Columns, order int, keep bool, watch func(float64)) (source, error) {
	if once, ok := atMostOnce(s); ok {
		return newOnceSource(once, columns, order, keep, watch)
	}
	return newTupleSource(epochLaw(s), s, columns, order, room{keep: keep, maxBytes: epochTableBytes(order), state: stateBytes, passing: min(2*s.MinSep+3, s.Steps+1)})
}

func (epochMinSep) drawable(s montecarlo.Spec, order int) bool {
	_, once := atMostOnce(s)
	return once || keptBytes(epochLaw(s), s.Steps, order) <= maxTableBytes
}

// work is told of when an order's table is made.
func (epochMinSep) work(s montecarlo.Spec, order int) float64 {
	if once, ok := atMostOnce(s); ok {
		return onceWork(once, order)
	}
	return countStates(order, s.MinSep+1) * float64(s.Steps)
}

func (epochMinSep) posterior(s montecarlo.Spec, columns *likelihood.Columns) posterior {
	e := likelihood.Epochs{Steps: s.Steps, MinSep: s.MinSep, Epoch: s.EpochSteps}
	return epochPosterior{likelihood.NewEpochPosterior(e, columns.SquaredNorms(1/(s.NoiseMultiplier*s.NoiseMultiplier)))}
}

// maxEpochBytes bounds the kept slices of an order up to 3, which no slice of another epoch stands
// for. They are 1.8 GB for four epochs of 1800 steps with min-sep 256, where order 2 has a hundred
// times the M of order 3.
const maxEpochBytes = 2 << 30

// epochTableBytes is the bound for an order.
func epochTableBytes(order int) int {
	if order <= 3 {
		return maxEpochBytes
	}
	return maxTableBytes
}

func epochLaw(s montecarlo.Spec) law.Epochs { return law.NewEpochs(s.Steps, s.MinSep, s.EpochSteps) }

// epochPosterior is the posterior of epoch min-sep (F5.8).
type epochPosterior struct{ *likelihood.EpochPosterior }

func (p epochPosterior) given(u, participates []float64) float64 { return p.Given(u, participates) }

// logNever: an example that is in no epoch but a cut one, of a run shorter than it.
func (p epochPosterior) logNever() float64 {
	if p.Epoch <= p.Steps {
		return math.Inf(-1)
	}
	return math.Log(float64(p.Epoch-p.Steps)/float64(p.Epoch)) - tangentRounding
}

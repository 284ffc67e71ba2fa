package tilt

import (
	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/internal/law"
	"minsep/accounting/montecarlo/internal/likelihood"
)

// atMostOnce is the warm or cold b-min-sep with b ≥ n that a spec is where an example takes part at
// most once. Epoch min-sep with T ≥ n is warm with p/(1+(n-1)p) = 1/T.
func atMostOnce(s montecarlo.Spec) (once montecarlo.Spec, ok bool) {
	switch {
	case s.Scheme == montecarlo.EpochMinSep && s.EpochSteps >= s.Steps:
		s.Scheme, s.MinSep, s.WarmStart = montecarlo.BMinSep, s.Steps, true
		s.Prob, s.EpochSteps = 1/float64(s.EpochSteps-s.Steps+1), 0
		return s, true
	case (s.Scheme == montecarlo.BMinSep || s.Scheme == montecarlo.Poisson) && s.MinSep >= s.Steps:
		return s, true
	}
	return s, false
}

// maxOnceOrder is the highest order in closed form.
const maxOnceOrder = 3

// maxOnceTable and maxOnceTableBytes bound the states times steps of an order above it, some 20 ns
// each, and the bytes that they take.
const (
	maxOnceTable      = 6e7
	maxOnceTableBytes = 256 << 20
)

// newOnceSource takes the closed form where it goes, then the table, then clusters.
func newOnceSource(s montecarlo.Spec, columns *likelihood.Columns, order int, keep bool, watch func(float64)) (source, error) {
	if o, err := newOnce(s, columns, order); err == nil {
		return onceSource{o}, nil
	}
	if onceTableFits(s, order) {
		return newOnceTable(s, columns, order, keep, watch)
	}
	c, err := newClusters(s, columns, order, exactClusters(columns.Bands, order))
	return clusterSource{c}, err
}

// newOnceTable makes the table of [law.Once], with as many labels as the strategy has bands.
func newOnceTable(s montecarlo.Spec, columns *likelihood.Columns, order int, keep bool, watch func(float64)) (source, error) {
	// Columns farther apart than the bands do not overlap.
	g := newGram(columns, columns.Bands, 1/(s.NoiseMultiplier*s.NoiseMultiplier))
	t, err := newTuples(onceLaw(s, columns.Bands), s.Steps, order, g, room{keep: keep, maxBytes: maxOnceTableBytes, state: stateBytes, passing: 3, watch: watch})
	return tupleSource{t, hazardError * float64(order*s.Steps)}, err
}

// hazardError bounds the relative errors of a hazard of law.Once, and of its complement. The
// complement is at least ½ but at the last step. V is 1 for every state there, and one more
// participation changes it by at most V/η.
const hazardError = 8 * 0x1p-53

func onceLaw(s montecarlo.Spec, bands int) law.Once {
	first, ratio, never := onceDistribution(s)
	return law.NewOnce(s.Steps, bands, first, ratio, never)
}

// onceAffordable is true up to maxOnceOrder, where newOnce refuses tables that are too large.
func onceAffordable(s montecarlo.Spec, order int) bool {
	return order <= maxOnceOrder || onceTableFits(s, order) || clusterWork(s.Steps, s.Strategy.Bands(), order) <= maxClusterWork
}

func onceTableFits(s montecarlo.Spec, order int) bool {
	return order <= maxOrder && tableWork(s, order) <= maxOnceTable && keptBytes(onceLaw(s, s.Strategy.Bands()), s.Steps, order) <= maxOnceTableBytes
}

func tableWork(s montecarlo.Spec, order int) float64 {
	return countStates(order, s.Strategy.Bands()+1) * float64(s.Steps)
}

// onceWork is the work of an order in states times steps of a table; a multiplication for clusters
// takes an eighth of the time.
func onceWork(s montecarlo.Spec, order int) float64 {
	if order > maxOnceOrder && !onceTableFits(s, order) {
		return clusterWork(s.Steps, s.Strategy.Bands(), order) / 8
	}
	return tableWork(s, order)
}

// highestOrder is the highest θ that is tried.
func highestOrder(s montecarlo.Spec) int {
	if _, ok := atMostOnce(s); ok {
		return maxClusterOrder
	}
	return maxOrder
}

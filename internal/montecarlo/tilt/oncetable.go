package tilt

import (
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/law"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/montecarlo/internal/tuples"
)

// singleOf is the distribution of an example that takes part at most once in the run of a spec.
func singleOf(s montecarlo.Spec) (x law.Single, ok bool) {
	if l, is := s.Law().(law.Lone); is {
		return l.Single(s.Steps)
	}
	return x, false
}

// maxOnceOrder is the highest order in closed form.
const maxOnceOrder = 3

// newOnceSource takes the closed form where there is one, else the table where it fits, else
// clusters. Each covers cases that the others do not. The figures are for an epoch of 1000 steps
// with columns of the square root:
//
//   - the closed form has the orders 2 and 3 of any number of bands. Without it, 1000 bands need 13 %
//     more noise to prove (8, 1e-5);
//   - the table has the other orders of a cold start, in which steps have different probabilities.
//     Without it, 16 bands need 8 % more noise to prove (8, 1e-9) from a cold start;
//   - clusters have high orders in a tenth of the time of blocks of steps. But blocks bound them
//     closer: 16 bands need 13 % less noise to prove (1, 1e-5) by blocks.
//
// Where the probabilities are alike, clusters alone give the σ of the table to 0.01 %. The bits of
// samples depend on this choice.
func newOnceSource(x law.Single, s montecarlo.Spec, columns *likelihood.Columns, order int, keep bool, watch watcher) (*source, error) {
	factor := s.Factor()
	if o, err := newOnce(x, columns, factor, order); err == nil {
		return o.source(), nil
	}
	if onceTableFits(s, x, order) {
		l := law.NewOnce(columns.Steps, columns.Bands, x)
		return newTableSource(l, columns, factor, order, tuples.Options{Keep: keep, MaxBytes: maxBlockBytes, Watch: watch})
	}
	c, err := newClusters(x, columns, factor, order, exactClusters(columns.Bands, order))
	if err != nil {
		return nil, err
	}
	return c.source(), nil
}

// onceAffordable is true up to maxOnceOrder, where newOnce refuses tables that are too large.
func onceAffordable(s montecarlo.Spec, x law.Single, order int) bool {
	return order <= maxOnceOrder || onceTableFits(s, x, order) || clusterWork(s.Steps, s.Strategy.Bands(), order) <= maxClusterWork
}

func onceTableFits(s montecarlo.Spec, x law.Single, order int) bool {
	return order <= maxOrder && tableWork(s, order) <= maxAlikeWork && 8*tableWork(s, order) <= maxBlockBytes
}

func tableWork(s montecarlo.Spec, order int) float64 {
	return tuples.Count(s.Strategy.Bands()+1, order-1) * float64(s.Steps)
}

// onceWork is the work of an order in states times steps of a table; a multiplication for clusters
// takes an eighth of the time.
func onceWork(s montecarlo.Spec, x law.Single, order int) float64 {
	if order > maxOnceOrder && !onceTableFits(s, x, order) {
		return clusterWork(s.Steps, s.Strategy.Bands(), order) / 8
	}
	return tableWork(s, order)
}

// highestOrder is the highest θ that is tried.
func highestOrder(s montecarlo.Spec) int {
	if _, ok := singleOf(s); ok {
		return maxBlockOrder
	}
	return maxOrder
}

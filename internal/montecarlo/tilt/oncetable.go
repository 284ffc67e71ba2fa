package tilt

import (
	"slices"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/montecarlo/internal/tuples"
	"minsep/sampling"
)

// uniformOnce is participation at most once in a run, at each step with the same probability. Never is the
// probability of no participation.
type uniformOnce struct{ each, never float64 }

// singleOf is the distribution of an example that takes part at most once in the run of a spec, at
// all steps with one probability, but for rounding.
func singleOf(s montecarlo.Spec) (x uniformOnce, ok bool) {
	if s.Law == nil || s.Law.MaxParticipations() != 1 {
		return x, false
	}
	rates := s.Law.Rates()
	x = uniformOnce{slices.Max(rates), s.Law.Never()}
	return x, slices.Min(rates) > x.each*(1-inflation/100)
}

// table is the law from one first point: at step i, an example that has not taken part does so with
// probability a/(1 - ia). Other laws with the same distribution may have many first points.
func (x uniformOnce) table(steps int) (*sampling.Table, error) {
	law := sampling.Law{
		Start: []sampling.Start{{Prob: 1}},
		Next: func(at sampling.Point) (p float64, in, out sampling.Point) {
			if p = x.each / (1 - float64(at.Step)*x.each); !(p < 1-inflation) {
				p = 1
			}
			return p, sampling.Point{Step: sampling.Never}, sampling.Point{Step: at.Step + 1}
		},
	}
	return law.Tabulate(steps)
}

// uniformStep is the law of a run in which everybody takes part at one step, each with the same
// probability.
func uniformStep(steps int) (*sampling.Table, error) {
	return uniformOnce{each: 1 / float64(steps)}.table(steps)
}

// maxOnceOrder is the highest order in closed form.
const maxOnceOrder = 3

// newOnceSource takes the closed form where there is one, else the table where it fits, else
// clusters. Each covers cases that the others do not. The figures are for an epoch of 1000 steps
// with columns of the square root:
//
//   - the closed form has the orders 2 and 3 of any number of bands. Without it, 1000 bands need 13 %
//     more noise to prove (8, 1e-5);
//   - clusters have high orders in a tenth of the time of blocks of steps. But blocks bound them
//     closer: 16 bands need 13 % less noise to prove (1, 1e-5) by blocks.
//
// Clusters alone give the σ of the table to 0.01 %. The bits of samples depend on this choice.
func newOnceSource(
	x uniformOnce,
	s montecarlo.Spec,
	columns *likelihood.Columns,
	order int,
	keep bool,
	watch watcher,
) (*source, error) {
	factor := s.Factor()
	if o, err := newOnce(x, columns, factor, order); err == nil {
		return o.source(), nil
	}
	if onceTableFits(s, x, order) {
		law, err := x.table(columns.Steps)
		if err != nil {
			return nil, err
		}
		return newTableSource(
			law,
			columns,
			factor,
			order,
			tuples.Options{Keep: keep, MaxBytes: maxBlockBytes, Watch: watch},
		)
	}
	c, err := newClusters(x, columns, factor, order, exactClusters(columns.Bands, order))
	if err != nil {
		return nil, err
	}
	return c.source(), nil
}

// onceAffordable is true up to maxOnceOrder, where newOnce refuses tables that are too large.
func onceAffordable(s montecarlo.Spec, x uniformOnce, order int) bool {
	return order <= maxOnceOrder || onceTableFits(s, x, order) ||
		clusterWork(s.Steps(), s.Strategy.Bands(), order) <= maxClusterWork
}

func onceTableFits(s montecarlo.Spec, x uniformOnce, order int) bool {
	return order <= maxOrder && tableWork(s, order) <= maxAlikeWork && 8*tableWork(s, order) <= maxBlockBytes
}

func tableWork(s montecarlo.Spec, order int) float64 {
	return tuples.Count(s.Strategy.Bands()+1, order-1) * float64(s.Steps())
}

// onceWork is the work of an order in states times steps of a table; a multiplication for clusters
// takes an eighth of the time.
func onceWork(s montecarlo.Spec, x uniformOnce, order int) float64 {
	if order > maxOnceOrder && !onceTableFits(s, x, order) {
		return clusterWork(s.Steps(), s.Strategy.Bands(), order) / 8
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

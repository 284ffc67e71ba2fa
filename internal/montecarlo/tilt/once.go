package tilt

import (
	"context"
	"slices"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/likelihood"
)

// uniformOnce is participation at most once in a run, at each step with the same probability. Never
// is the probability of no participation. Its orders are bounded in clusters (F5.13).
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

func (uniformOnce) affordable(s montecarlo.Spec, order int) bool {
	return order <= maxBlockOrder && clusterWork(s.Steps(), s.Strategy.Bands(), order) <= maxClusterWork
}

func (x uniformOnce) source(
	ctx context.Context,
	s montecarlo.Spec,
	columns *likelihood.Columns,
	order int,
	_ float64,
) (*source, error) {
	c, err := newClusters(x, columns, s.Factor(), order, exactClusters(columns.Bands, order))
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return nil, err
	}
	return c.source(), nil
}

// work takes a multiplication for an eighth of a state.
func (uniformOnce) work(s montecarlo.Spec, order int) float64 {
	return clusterWork(s.Steps(), s.Strategy.Bands(), order) / 8
}

// highestOrder is the highest θ that is tried.
func highestOrder(s montecarlo.Spec) int {
	if _, ok := singleOf(s); ok {
		return maxBlockOrder
	}
	return maxOrder
}

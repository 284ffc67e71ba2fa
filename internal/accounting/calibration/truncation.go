package calibration

import (
	"context"
	"errors"
	"fmt"

	"minsep/internal/accounting"
	"minsep/internal/accounting/pld"
	"minsep/internal/montecarlo"
)

// MostTruncation is the part of δ that truncation may cost at most.
const MostTruncation = 0.5

// cost is the addition of truncation to a divergence; nil if the run's own pair is used.
func (c *calibrator) cost(d montecarlo.Direction) (*accounting.Truncated, error) {
	if !c.byCost {
		return nil, nil
	}
	cost, err := c.Run.TruncationCost(d, c.Epsilon)
	return &cost, err
}

// mostCost is the cost in the direction in which it is larger.
func (c *calibrator) mostCost() (float64, error) {
	if !c.byCost {
		return 0, nil
	}
	return c.Run.MostTruncationCost(c.Epsilon)
}

// share is the largest part of delta that truncation takes from a trial. A trial without samples and
// with a total of at most MostTruncation times delta, as if the divergence is 0, does not count.
func (out *Plan) share(delta float64) (share float64) {
	for _, c := range out.Protocol.Candidates {
		for _, t := range c.Trials {
			if t.Truncation != nil && (t.Samples > 0 || t.Bound+t.Truncation.Cost > MostTruncation*delta) {
				share = max(share, t.Truncation.Cost/delta)
			}
		}
	}
	return share
}

// checkTruncation refuses a maximum batch size that costs more than MostTruncation of what the failure
// probabilities of earlier protocols leave of δ. It returns the largest cost.
func (c *calibrator) checkTruncation() (cost float64, err error) {
	if cost, err = c.mostCost(); err != nil || cost <= MostTruncation*c.room() {
		return cost, err
	}
	e := &accounting.TruncationError{MaxBatchSize: c.Run.Sampler.Truncation.MaxBatchSize, Cost: cost, Delta: c.room()}
	if e.Suggested, err = c.Run.SuggestMaxBatchSize(c.Epsilon, c.room()); err != nil {
		return cost, err
	}
	return cost, e
}

// leastProven is the smallest noise multiplier of a run without samples that is proven for the δ that
// truncation leaves.
func (c *calibrator) leastProven(ctx context.Context) (sigma float64, err error) {
	cost, err := c.mostCost()
	if err != nil {
		return 0, err
	}
	least, err := c.run.Calibrate(ctx, c.Epsilon, c.Delta-cost)
	if errors.Is(err, pld.ErrNotReached) {
		err = fmt.Errorf(
			"%w: no noise multiplier up to 1e6 is proven to give (%g, %g)-differential privacy",
			ErrNotPrivate,
			c.Epsilon,
			c.Delta,
		)
	}
	return least, err
}

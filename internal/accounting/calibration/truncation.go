package calibration

import (
	"context"
	"errors"
	"fmt"
	"math"

	"minsep/internal/accounting"
	"minsep/internal/accounting/pld"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/tilt"
)

// MostTruncation is the part of δ that truncation may cost at most.
const MostTruncation = 0.5

// TruncationCost is Run.TruncationCost at a noise multiplier, or at any for 0, with the run's moments
// where these may lower it.
func TruncationCost(
	run accounting.Run,
	sigma, epsilon float64,
	d montecarlo.Direction,
) (accounting.Truncated, error) {
	var m accounting.Moments
	if d == montecarlo.P {
		var err error
		if m, err = momentsAt(run, sigma); err != nil {
			return accounting.Truncated{}, err
		}
	}
	return run.TruncationCost(d, epsilon, m)
}

// MostTruncationCost is the cost in the direction in which it is larger.
func MostTruncationCost(run accounting.Run, sigma, epsilon float64) (most float64, err error) {
	for _, d := range montecarlo.Directions {
		cost, err := TruncationCost(run, sigma, epsilon, d)
		if err != nil {
			return 0, err
		}
		most = max(most, cost.Cost)
	}
	return most, nil
}

// momentsAt are the moments of a run by its scheme; none if the scheme has none, and at noise
// multiplier 0, which stands for any.
func momentsAt(run accounting.Run, sigma float64) (accounting.Moments, error) {
	if sigma == 0 {
		return accounting.Moments{}, nil
	}
	m := accounting.Moments{NoiseMultiplier: sigma}
	list, err := tilt.Moments(run.Loss(sigma))
	var unknown *montecarlo.ParamError
	if err != nil && !errors.As(err, &unknown) { // a run that is composed may have no loss to sample
		return m, err
	}
	for _, o := range list {
		m.Orders = append(m.Orders, accounting.Moment(o))
	}
	return m, nil
}

// cost is the addition of truncation to a divergence; nil if the run's own pair is used.
func (c *calibrator) cost(sigma float64, d montecarlo.Direction) (*accounting.Truncated, error) {
	if !c.byCost {
		return nil, nil
	}
	cost, err := TruncationCost(c.Run, sigma, c.Epsilon, d)
	return &cost, err
}

// mostCost is the cost in the direction in which it is larger.
func (c *calibrator) mostCost(sigma float64) (float64, error) {
	if !c.byCost {
		return 0, nil
	}
	return MostTruncationCost(c.Run, sigma, c.Epsilon)
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

// tooDear is the error of a maximum batch size that costs too much at a noise multiplier; nil if it
// does not.
func (c *calibrator) tooDear(ctx context.Context, sigma float64) error {
	e := &accounting.TruncationError{MaxBatchSize: c.Run.Sampler.Truncation.MaxBatchSize, Delta: c.Delta}
	var err error
	if e.Cost, err = MostTruncationCost(c.Run, sigma, c.Epsilon); err != nil || e.Cost <= MostTruncation*c.Delta {
		return err
	}
	// The maximum that would do is for the noise multiplier that is asked for, or else for one that is
	// a little too large for the run without truncation.
	noise := c.NoiseMultiplier
	if noise == 0 {
		whole := c.Problem
		whole.Run = c.Run.Untruncated()
		of, err := whole.begin(false)
		if err != nil {
			return err
		}
		start, err := of.start(ctx)
		if err != nil {
			return err
		}
		n, err := Claim{
			Run:     of.run,
			Epsilon: c.Epsilon,
			Delta:   c.Delta,
		}.Noise(
			ctx,
			Guess{start, UnknownSlope, math.Inf(1)},
		)
		if err != nil {
			return err
		}
		noise = Little * n.Multiplier
	}
	m, err := momentsAt(c.Run, noise)
	if err != nil {
		return err
	}
	if e.Suggested, err = c.Run.SuggestMaxBatchSize(c.Epsilon, c.Delta, m); err != nil {
		return err
	}
	return e
}

// leastProven is the smallest noise multiplier of a run without samples that is proven for the δ that
// truncation leaves. Truncation costs less at more noise: the δ left at one noise multiplier is left
// at every larger one.
func (c *calibrator) leastProven(ctx context.Context) (sigma float64, err error) {
	for cost := 0.0; ; {
		least, err := c.run.Calibrate(ctx, c.Epsilon, c.Delta-cost)
		if errors.Is(err, pld.ErrNotReached) {
			err = fmt.Errorf(
				"%w: no noise multiplier up to 1e6 is proven to give (%g, %g)-differential privacy",
				ErrNotPrivate,
				c.Epsilon,
				c.Delta,
			)
		}
		if err != nil {
			return 0, err
		}
		next, err := c.mostCost(least.Upper)
		switch {
		case err != nil:
			return 0, err
		case next <= cost:
			return least.Upper, nil
		case next > MostTruncation*c.Delta:
			return 0, c.tooDear(ctx, least.Upper)
		}
		cost = next
	}
}

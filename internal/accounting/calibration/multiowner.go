package calibration

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"minsep/internal/accounting"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/tilt"
	"minsep/sampling"
)

// MultiOwnerEstimate is the estimated δ of Algorithm 3 for an owner of Examples examples, whose
// participations have the distribution F4.1, as published. None of it is proven.
type MultiOwnerEstimate struct {
	Examples int     `json:"examples"` // of the owner, at least 1
	Delta    float64 `json:"delta"`    // at ε, above 0
	StdErr   float64 `json:"std_err"`  // of Delta, at least 0
	Effort   float64 `json:"effort"`   // M/δ
}

// MultiOwnerEstimates estimates δ of Algorithm 3 for owners of 1 to MaxExamplesPerOwner examples:
// fewer examples may be worse. Figures for which an estimate would take too many samples are left out.
func MultiOwnerEstimates(
	ctx context.Context,
	run accounting.Run,
	sigma, epsilon float64,
) (list []MultiOwnerEstimate, err error) {
	if method, err := run.Method(); method != accounting.Unproven {
		return nil, errors.Join(fmt.Errorf("these estimates are for %s only", sampling.MultiOwner{}.Name()), err)
	}
	for k := 1; k <= run.MaxExamplesPerOwner; k++ {
		e := MultiOwnerEstimate{Examples: k}
		spec := run.Loss(sigma)
		spec.MaxExamplesPerOwner = k
		enough, err := e.estimate(ctx, run, spec, epsilon)
		if err != nil {
			return nil, err
		}
		if enough {
			list = append(list, e)
		}
	}
	return list, nil
}

// estimate adds δ, the larger of both directions, with its error; enough is false if that takes too
// many samples. No samples are needed if a proven bound is far below the other direction's, and no
// more once a direction is shown to be below it.
func (e *MultiOwnerEstimate) estimate(
	ctx context.Context,
	run accounting.Run,
	spec montecarlo.Spec,
	epsilon float64,
) (enough bool, err error) {
	enough = true
	for _, direction := range montecarlo.Directions {
		d, err := newDivergence(ctx, tilt.Config{Spec: spec, Epsilon: epsilon, Direction: direction}, mostTables)
		if err != nil {
			return false, err
		}
		if run.Sampler.Truncation != nil {
			cost, err := run.TruncationCost(direction, epsilon)
			if err != nil {
				return false, err
			}
			d.cut = &cost
		}
		if d.proof.bound > Negligible*e.Delta {
			isBelow := func() bool { return d.most() <= e.Delta } // the other direction
			s := &search{workers: runtime.GOMAXPROCS(0)}
			most := 10 * planWork / float64(spec.Steps())
			if err := s.drawUntil(ctx, d, most, func() bool { return d.sum >= seenEnough || isBelow() }); err != nil {
				return false, err
			}
			enough = enough && (d.sum >= Apart*Apart || isBelow())
		}
		if delta := d.mean() + d.cost(); delta >= e.Delta {
			e.Delta = delta
			if d.samples > 0 {
				e.StdErr, e.Effort = d.mean()*d.stdErr(), d.bound()/max(delta, 1e-300)
			}
		}
	}
	return enough && e.Delta > 0, nil
}

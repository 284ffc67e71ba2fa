package calibration

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"

	"minsep/internal/accounting"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/tilt"
	"minsep/sampling"
)

// MultiOwnerEstimate is the estimated δ of Algorithm 3 for an owner of Examples examples. None of it is
// proven.
type MultiOwnerEstimate struct {
	Distribution string  `json:"law"`      // F4.1: of their participations, as published (cold start)
	Examples     int     `json:"examples"` // of the owner, at least 1
	Delta        float64 `json:"delta"`    // at ε, above 0
	StdErr       float64 `json:"std_err"`  // of Delta, at least 0
	Effort       float64 `json:"effort"`   // M/δ
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
		e := MultiOwnerEstimate{Distribution: "F4.1", Examples: k}
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
		const scale = 1e-5 // of the estimate's logarithms: any δ serves
		s, l := d.estimateOf(runtime.GOMAXPROCS(0), scale)
		if d.proof.bound > Negligible*e.Delta {
			const work = 2e8 // 1e5 samples are enough for a figure that is only printed
			most := work / float64(max(leastSteps, spec.Steps()))
			isBelow := func() bool { return l.samples > 0 && math.Exp(l.most())*scale <= e.Delta } // the other direction
			for want := uint64(16 * Few); l.samples < want && !isBelow(); want = uint64(min(most, 8*float64(want), additionalEstimate*float64(l.samples)/max(l.sum, 1e-300))) {
				if err := s.draw(ctx, l, want); err != nil {
					return false, err
				}
			}
			enough = enough && (l.sum >= Apart*Apart || isBelow())
		}
		if delta := l.mean() + d.cost(); delta >= e.Delta {
			e.Delta = delta
			if l.samples > 0 {
				e.StdErr, e.Effort = l.mean()*l.stdErr(), d.bound()/max(delta, 1e-300)
			}
		}
	}
	return enough && e.Delta > 0, nil
}

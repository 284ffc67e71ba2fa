package calibration

import (
	"math"
)

// mostDelta is the largest δ of an additional ε: a larger one says next to nothing.
const mostDelta = 0.5

// lookAt is a look at a divergence whose size is not known, and the search that draws its samples.
func (d divergence) lookAt(workers int, delta float64) (*search, *look, error) {
	scale, err := NewScale(d.Epsilon, delta)
	if err != nil {
		return nil, nil, err
	}
	l := &look{
		divergence: d,
		x:          math.Log(d.Spec.NoiseMultiplier),
		logBound:   math.Log(max(d.bound(), 1e-300) / delta),
	}
	return &search{
		Claim:     Claim{Epsilon: d.Epsilon, Delta: delta},
		scale:     scale,
		direction: d.Direction,
		workers:   workers,
		looks:     []*look{l},
	}, l, nil
}

package tilt

import (
	"fmt"

	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/internal/kernel"
	"minsep/accounting/montecarlo/internal/likelihood"
)

// rotation is participation once in each period, with order 2 by the tables of F5.5r.
type rotation struct{}

func (rotation) separated() bool { return false }

func (rotation) affordable(s montecarlo.Spec, order int) bool {
	bands := float64(s.Strategy.Bands())
	if order == 3 {
		return bands*bands*float64(s.Steps) < maxTripleWork
	}
	return order == 2 && pairBytes(s) <= maxPairBytes && bands*bands*min(3*bands*float64(periodsOf(s).Count()), float64(s.Steps)) < maxPairWork
}

// maxPairWork bounds multiplications for the ages of both replicas, maxTripleWork
// multiplications for triples of places.
const (
	maxPairWork   = 2e10
	maxTripleWork = 2e9
)

func (rotation) source(s montecarlo.Spec, columns *likelihood.Columns, order int, keep bool, _ func(float64)) (source, error) {
	switch {
	case order == 1:
		return rotationSource{periodsOf(s)}, nil
	case order == 3:
		n, err := newTripleBound(s, columns, mostGroups)
		return boundSource{n + max(inflation, 2*tripleRounding(s, columns))}, err
	case order > 3:
		return nil, fmt.Errorf("%w: order %d of rotation", ErrTable, order)
	}
	t, err := newPairs(s, columns, keep)
	return pairSource{t}, err
}

func (rotation) drawable(s montecarlo.Spec, order int) bool {
	return order == 2 && pairBytes(s) <= maxTableBytes
}

// work is too little to be told of.
func (rotation) work(montecarlo.Spec, int) float64 { return 0 }

func (rotation) posterior(s montecarlo.Spec, columns *likelihood.Columns) posterior {
	return likelihood.NewRotationPosterior(periodsOf(s), columns, 1/(s.NoiseMultiplier*s.NoiseMultiplier))
}

func periodsOf(s montecarlo.Spec) likelihood.Periods {
	return likelihood.Periods{Steps: s.Steps, Period: s.EpochSteps}
}

// rotationSource is order 1: patterns of rotation itself.
type rotationSource struct{ likelihood.Periods }

func (s rotationSource) logN() float64 { return 0 }

// walkError: a number has 53 bits, for one of T places.
func (s rotationSource) walkError() float64 { return float64(s.Steps+s.Period) * 0x1p-53 }

func (s rotationSource) walkable() bool { return true }

func (s rotationSource) walker() func(hits []kernel.Hit, u *uniforms) []kernel.Hit {
	return func(hits []kernel.Hit, u *uniforms) []kernel.Hit {
		hits = hits[:0]
		for first := 0; first < s.Steps; first += s.Period {
			if step := first + int(u.float64()*float64(s.Period)); step < s.Steps {
				hits = append(hits, kernel.Hit{Step: step, Times: 1})
			}
		}
		return hits
	}
}

// boundSource is a bound of N_3, which proves noise multipliers that need no samples. No tuple is
// drawn from it.
type boundSource struct{ raised float64 }

func (s boundSource) logN() float64 { return s.raised }

func (s boundSource) walkError() float64 { return 0 }

func (s boundSource) walkable() bool { return false }

func (s boundSource) walker() func(hits []kernel.Hit, u *uniforms) []kernel.Hit {
	panic("tilt: no tuples are drawn from a bound")
}

// tripleRounding bounds the relative error of N_3: a period sums over three places of three others,
// and has nine exponents.
func tripleRounding(s montecarlo.Spec, columns *likelihood.Columns) float64 {
	most := 0.0
	for _, norm := range columns.SquaredNorms(1 / (s.NoiseMultiplier * s.NoiseMultiplier)) {
		most = max(most, norm)
	}
	w := float64(columns.Bands)
	return float64(periodsOf(s).Count()) * (3*float64(s.EpochSteps) + 6*w + 300 + 9*most*(w+8)) * 0x1p-53
}

// pairSource are pairs of replicas of rotation.
type pairSource struct{ *pairs }

func (s pairSource) logN() float64 { return s.pairs.logN + max(inflation, 2*s.rounding) }

// walkError: a pair is drawn by two numbers a period, from sums that are as good as the weights.
func (s pairSource) walkError() float64 { return 4 * s.rounding }

func (s pairSource) walkable() bool { return true }

func (s pairSource) walker() func(hits []kernel.Hit, u *uniforms) []kernel.Hit { return s.draw }

// pairBytes is about the size of the tables to draw from.
func pairBytes(s montecarlo.Spec) float64 {
	return 8 * float64(s.Strategy.Bands()) * float64(s.Steps+s.EpochSteps)
}

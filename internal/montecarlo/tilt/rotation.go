package tilt

import (
	"fmt"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
)

// rotation is participation once in each period, with order 2 by the tables of F5.5r.
type rotation struct{}

func (rotation) separated() bool { return false }

func (rotation) affordable(s montecarlo.Spec, order int) bool {
	bands := float64(s.Strategy.Bands())
	if order == 3 {
		return bands*bands*float64(s.Steps) < maxLowWork
	}
	return order == 2 && pairBytes(s) <= maxPairBytes && bands*bands*min(3*bands*float64(periodsOf(s).Count()), float64(s.Steps)) < maxProducts
}

func (rotation) source(s montecarlo.Spec, columns *likelihood.Columns, order int, keep bool, _ watcher) (*source, error) {
	switch order {
	case 1:
		p := periodsOf(s)
		// A number has 53 bits, for one of T places.
		return &source{walkError: float64(p.Steps+p.Period) * 0x1p-53, walker: exactly(p.draw)}, nil
	case 2:
		t, err := newPairs(s, columns, keep)
		if err != nil {
			return nil, err
		}
		return t.source(), nil
	case 3: // a bound of N_3, which proves noise multipliers that need no samples
		n, err := newTripleBound(s, columns, mostGroups)
		return &source{lnN: n, raised: max(inflation, 2*tripleRounding(s, columns))}, err
	}
	return nil, fmt.Errorf("%w: order %d of rotation", ErrTable, order)
}

func (rotation) drawable(s montecarlo.Spec, order int) bool {
	return order == 2 && pairBytes(s) <= maxTableBytes
}

// work is too little to be told of.
func (rotation) work(montecarlo.Spec, int) float64 { return 0 }

func (rotation) posterior(s montecarlo.Spec, columns *likelihood.Columns) posterior {
	return likelihood.NewRotationPosterior(periodsOf(s).Periods, columns, s.Factor())
}

// periods are patterns of rotation itself: order 1.
type periods struct{ likelihood.Periods }

func periodsOf(s montecarlo.Spec) periods {
	return periods{likelihood.Periods{Steps: s.Steps, Period: s.EpochSteps}}
}

func (p periods) draw(hits []kernel.Hit, u *uniforms) []kernel.Hit {
	hits = hits[:0]
	for first := 0; first < p.Steps; first += p.Period {
		if step := first + int(u.Float64()*float64(p.Period)); step < p.Steps {
			hits = append(hits, kernel.Hit{Step: step, Times: 1})
		}
	}
	return hits
}

// tripleRounding bounds the relative error of N_3: a period sums over three places of three others,
// and has nine exponents.
func tripleRounding(s montecarlo.Spec, columns *likelihood.Columns) float64 {
	most := 0.0
	for _, norm := range columns.SquaredNorms(s.Factor()) {
		most = max(most, norm)
	}
	w := float64(columns.Bands)
	return float64(periodsOf(s).Count()) * (3*float64(s.EpochSteps) + 6*w + 300 + 9*most*(w+8)) * 0x1p-53
}

// source bounds the error of a walk: a pair is drawn by two numbers a period, from sums with the
// relative error of the weights.
func (p *pairs) source() *source {
	return &source{lnN: p.logN, raised: max(inflation, 2*p.rounding), walkError: 4 * p.rounding, walker: exactly(p.draw)}
}

// pairBytes is about the size of the tables to draw from.
func pairBytes(s montecarlo.Spec) float64 {
	return 8 * float64(s.Strategy.Bands()) * float64(s.Steps+s.EpochSteps)
}

package tilt

import (
	"context"
	"fmt"
	"slices"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/sampling"
)

// rotation is participation once in each period, with order 2 by the tables of F5.5r.
type rotation struct{ period int }

// rotationOf is the period of a spec whose law is rotation (F3.12), with columns that may overlap
// with those of the next period, but no further.
func rotationOf(s montecarlo.Spec) (period int, ok bool) {
	bands, first := s.Strategy.Bands(), s.Law.Row(0)
	if bands == 1 || s.Law.Separation() > 1 || len(first) != 1 {
		return 0, false
	}
	period = first[0].In.Wait
	if period < bands || period >= s.Law.Steps {
		return 0, false
	}
	table, err := sampling.TableOf(sampling.Rotation{Steps: s.Law.Steps, EpochSteps: period})
	return period, err == nil && table.Hash() == s.Law.Hash()
}

func (r rotation) affordable(s montecarlo.Spec, order int) bool {
	bands := float64(s.Strategy.Bands())
	if order == 3 {
		return bands*bands*float64(s.Steps()) < maxLowWork
	}
	return order == 2 && r.pairBytes(s) <= maxPairBytes &&
		bands*bands*min(3*bands*float64(r.of(s).count()), float64(s.Steps())) < maxProducts
}

func (r rotation) source(
	_ context.Context,
	s montecarlo.Spec,
	columns *likelihood.Columns,
	order int,
	most float64,
) (*source, error) {
	periods := r.of(s)
	switch order {
	case 1:
		// A number has 53 bits, for one of T places.
		return &source{
			walkError: float64(periods.steps+periods.length) * 0x1p-53,
			walker:    exactly(periods.draw),
		}, nil
	case 2:
		t, err := newPairs(periods, s.Factor(), columns, most == 0)
		if err != nil {
			return nil, err
		}
		return t.source(), nil
	case 3: // a bound of N_3, which proves noise multipliers that need no samples
		n, err := newTripleBound(periods, s.Factor(), columns, mostGroups)
		return &source{lnN: n, raised: max(inflation, 2*periods.tripleRounding(s.Factor(), columns))}, err
	}
	return nil, fmt.Errorf("%w: order %d of rotation", ErrTable, order)
}

// work is small.
func (rotation) work(montecarlo.Spec, int) float64 { return 0 }

// of are the periods of a spec.
func (r rotation) of(s montecarlo.Spec) periods { return periods{s.Steps(), r.period} }

// pairBytes is about the size of the tables to draw from.
func (r rotation) pairBytes(s montecarlo.Spec) float64 {
	return 8 * float64(s.Strategy.Bands()) * float64(s.Steps()+r.period)
}

// periods of a run: once in each period, at a uniform place, independently of the other periods. A
// place at or beyond the run's end is no participation.
type periods struct{ steps, length int }

// count is how many periods begin.
func (p periods) count() int { return (p.steps + p.length - 1) / p.length }

// places is how many places of a period are before the run's end.
func (p periods) places(period int) int { return min(p.length, p.steps-period*p.length) }

// draw draws one pattern: order 1.
func (p periods) draw(hits []kernel.Hit, u *kernel.Uniforms) []kernel.Hit {
	hits = hits[:0]
	for first := 0; first < p.steps; first += p.length {
		if step := first + int(u.Float64()*float64(p.length)); step < p.steps {
			hits = append(hits, kernel.Hit{Step: step, Times: 1})
		}
	}
	return hits
}

// crossing has the inner products of the columns of a period with the columns of the period before,
// over σ². Row k-1 is of the column k steps before the period: its entry v is the product with the
// column at place v of the period.
func (p periods) crossing(g *likelihood.Gram, bands, period int) (rows [][]float64) {
	first := period * p.length
	for k := 1; k < bands; k++ {
		row := make([]float64, min(bands-k, p.places(period)))
		for v := range row {
			row[v] = g.Between(first+v, k+v)
		}
		rows = append(rows, row)
	}
	return rows
}

// tripleRounding bounds the relative error of N_3: a period sums over three places of three others,
// and has nine exponents.
func (p periods) tripleRounding(factor float64, columns *likelihood.Columns) float64 {
	most := slices.Max(columns.SquaredNorms(factor))
	w := float64(columns.Bands)
	return float64(p.count()) * (3*float64(p.length) + 6*w + 300 + 9*most*(w+8)) * 0x1p-53
}

// source bounds the error of a walk: a pair is drawn by two numbers a period, from sums with the
// relative error of the weights.
func (p *pairs) source() *source {
	return &source{
		lnN:       p.logN,
		raised:    max(inflation, 2*p.rounding),
		walkError: 4 * p.rounding,
		walker:    exactly(p.draw),
	}
}

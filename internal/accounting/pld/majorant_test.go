package pld

import (
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/must"
)

// values is a variable with few values.
type values struct{ at, weights []float64 }

func (d values) excess(x float64) (sum float64) {
	for i, v := range d.at {
		sum += d.weights[i] * max(0, v-x)
	}
	return sum
}

func (d values) plus(o values) (sum values) {
	for i, v := range d.at {
		for j, w := range o.at {
			sum.at = append(sum.at, v+w)
			sum.weights = append(sum.weights, d.weights[i]*o.weights[j])
		}
	}
	return sum
}

// randomDiscrete has mean 1.
func randomDiscrete(r *rand.Rand) (d values) {
	total, mean := 0.0, 0.0
	for range 2 + r.IntN(3) {
		v, w := math.Exp(2.5*r.NormFloat64()), r.ExpFloat64()
		if r.IntN(3) == 0 {
			v = 0
		}
		d.at, d.weights = append(d.at, v), append(d.weights, w)
		total += w
		mean += v * w
	}
	for i := range d.at {
		d.weights[i] /= total
		d.at[i] *= total / mean
	}
	return d
}

// TestMajorant: sums, cut variables and sums of these are below the majorant at every threshold,
// and near it where the bounds are the variable's own.
func TestMajorant(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	const grid, low, size = 0.02, -150, 500
	for range 40 {
		d := randomDiscrete(r)
		if math.IsNaN(d.at[0]) || math.IsInf(d.at[0], 0) {
			continue
		}
		loose := 1 + r.Float64()*float64(r.IntN(2))
		bounds := make([]float64, size)
		for j := range bounds {
			bounds[j] = min(1, loose*d.excess(math.Exp(grid*float64(low+j))))
		}
		m := must.Get(NewMajorant(grid, low, bounds))(t)
		cut := int(r.IntN(120))
		at := math.Exp(grid * float64(cut))
		var short values
		for i, v := range d.at {
			if v > at {
				v = 0
			}
			short.at, short.weights = append(short.at, v), append(short.weights, d.weights[i])
		}
		three, shorts := d.plus(d).plus(d), short.plus(short).plus(short)
		sum, shortSum := m.Sum(3), m.Cut(cut).Sum(3)
		pair := m.Sum(2).Plus(m)
		for x := -1.0; x < 60; x += 0.1 + 0.3*max(0, x) {
			for name, c := range map[string][2]float64{
				"one": {d.excess(x), m.Excess(x)}, "three": {three.excess(x), sum.Excess(x)}, "two and one": {three.excess(x), pair.Excess(x)},
				"cut": {short.excess(x), m.Cut(cut).Excess(x)}, "three cut": {shorts.excess(x), shortSum.Excess(x)},
			} {
				if want, got := c[0], c[1]; got < want*(1-1e-12) {
					t.Errorf("%v: %s at %v: %v is below the true %v", d, name, x, got, want)
				} else if loose == 1 && name == "three" && got > want*1.1+2e-3 {
					t.Errorf("%v: three at %v: %v is far above the true %v", d, x, got, want)
				}
			}
		}
	}
}

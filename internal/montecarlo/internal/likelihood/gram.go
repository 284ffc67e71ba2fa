package likelihood

import "slices"

// Gram has the inner products of columns of C over σ². It is read-only and may be shared.
type Gram struct {
	Steps, Bands int
	ahead        [][]float64 // ahead[i][t] = ⟨c_i, c_{i+t}⟩/σ²; steps of equal products share a row
	alike        int         // steps from the first on that share one row
	most         float64     // the largest ‖c_i‖²/σ²
}

// NewGram takes 1/σ².
func NewGram(c *Columns, factor float64) *Gram {
	g := &Gram{Steps: c.Steps, Bands: c.Bands, ahead: make([][]float64, c.Steps)}
	var last []float64
	c.Backward(func(i int, inner []float64) {
		if slices.Equal(inner, last) {
			g.ahead[i] = g.ahead[i+1]
			return
		}
		last = append(last[:0], inner...)
		row := slices.Clone(inner)
		for t := range row {
			row[t] *= factor
		}
		g.ahead[i] = row
	})
	for g.alike < c.Steps && &g.ahead[g.alike][0] == &g.ahead[0][0] {
		g.alike++
	}
	for _, row := range g.ahead {
		g.most = max(g.most, row[0])
	}
	return g
}

// Between is ⟨c_{i-age}, c_i⟩/σ².
func (g *Gram) Between(i, age int) float64 {
	if age > i || age >= len(g.ahead[i-age]) {
		return 0
	}
	return g.ahead[i-age][age]
}

// Row sets dst[t] to ⟨c_{i-t}, c_i⟩/σ², and to 0 if i-t is before the first step.
func (g *Gram) Row(dst []float64, i int) {
	for t := range dst {
		dst[t] = g.Between(i, t)
	}
}

// Ahead has ⟨c_i, c_{i+t}⟩/σ² at t, as far as the columns overlap. It is not to be changed.
func (g *Gram) Ahead(i int) []float64 { return g.ahead[i] }

// Alike is the number of steps, from the first on, with the same products with later columns.
func (g *Gram) Alike() int { return g.alike }

// LargestNorm is the largest ‖c_i‖²/σ².
func (g *Gram) LargestNorm() float64 { return g.most }

package tilt

import "minsep/mechanism"

// gram gives the scaled inner products of nearby columns of C that the tuple tables need.
type gram struct {
	steps, sep int
	interior   int         // rows of steps below it are all alike, apart from the steps before the first
	full       []float64   // that common row, sep entries
	columns    [][]float64 // scaled columns; of a Toeplitz C only the last, from firstColumn on
	first      int         // step of columns[0]
}

// newGram scales C by 1/σ. For a Toeplitz C, normalised or not, all rows but the last `bands` are alike.
func newGram(c *mechanism.Strategy, sep int, sigma float64) *gram {
	g := &gram{steps: c.Steps, sep: sep, full: make([]float64, sep)}
	bands := c.Bands()
	if c.Columns == nil {
		g.interior = max(0, c.Steps-bands+1)
		g.first = max(0, g.interior-sep)
	}
	var toeplitz []float64
	if c.Columns == nil {
		toeplitz = c.FirstColumn(nil)
	}
	for i := g.first; i < c.Steps; i++ {
		column := column(c, toeplitz, i)
		for r := range column {
			column[r] /= sigma
		}
		g.columns = append(g.columns, column)
	}
	if g.interior > 0 {
		last := g.columns[g.interior-1-g.first]
		for t := range min(sep, len(last)) {
			g.full[t] = dot(last[t:], last)
		}
	}
	return g
}

// column returns column i of C; toeplitz is the first column before normalisation, nil when C is held by columns.
func column(c *mechanism.Strategy, toeplitz []float64, i int) []float64 {
	if toeplitz == nil {
		return c.Column(nil, i)
	}
	column := append([]float64(nil), toeplitz[:min(len(toeplitz), c.Steps-i)]...)
	if c.Normalized {
		norm := euclidean(column)
		for r := range column {
			column[r] /= norm
		}
	}
	return column
}

// row fills dst[t], t < sep, with ⟨c_{i-t}, c_i⟩/σ², and 0 where i-t is before the first step.
func (g *gram) row(dst []float64, i int) {
	if i < g.interior {
		copy(dst, g.full)
		clear(dst[min(i+1, g.sep):])
		return
	}
	clear(dst)
	for t := range min(g.sep, i+1-g.first) {
		older := g.columns[i-t-g.first]
		if t >= len(older) {
			break
		}
		dst[t] = dot(older[t:], g.columns[i-g.first])
	}
}

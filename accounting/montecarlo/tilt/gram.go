package tilt

import "minsep/accounting/montecarlo/internal/likelihood"

// gram gives the inner products of nearby columns of C over σ² that the tables need.
type gram struct {
	columns  *likelihood.Columns
	sep      int
	factor   float64   // 1/σ²
	interior int       // rows of steps below it are all alike, apart from the columns before the first
	full     []float64 // that common row
}

func newGram(c *likelihood.Columns, sep int, factor float64) *gram {
	g := &gram{columns: c, sep: sep, factor: factor}
	if c.First() != nil { // Toeplitz, normalised or not: only the last columns are cut
		g.interior = c.Steps - c.Bands + 1
		g.full = make([]float64, sep)
		last := g.interior - 1
		first, scale := c.Column(last)
		for t := range min(sep, len(first)) {
			for j, v := range first[t:] {
				g.full[t] += factor * scale * scale * v * first[j]
			}
		}
	}
	return g
}

// row fills dst[t], t < sep, with ⟨c_{i-t}, c_i⟩/σ², and 0 where i-t is before the first step.
func (g *gram) row(dst []float64, i int) {
	clear(dst)
	if i < g.interior {
		copy(dst, g.full[:min(i+1, g.sep)])
		return
	}
	for t := range min(g.sep, i+1) {
		dst[t] = g.factor * g.columns.Inner(i-t, i)
	}
}

package noise

import "math"

// FillUnrounded does Fill64 without rounding to the grid, to compare implementations.
func (g *Generator) FillUnrounded(dst []float64) error {
	limit := g.rounding64().limit
	return fill(g, dst, func(dst []float64, stride int, p []float64, from, to int, scales []float64) bool {
		ok := true
		for t, scale := range scales {
			out := dst[t*stride:][:to-from]
			for l, u := range p[t*lanes+from : t*lanes+to] {
				out[l] = u * scale
				ok = ok && math.Abs(out[l]) <= limit
			}
		}
		return ok
	})
}

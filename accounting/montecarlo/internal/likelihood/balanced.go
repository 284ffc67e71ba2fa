package likelihood

import (
	"math"

	"minsep/sampling/balanced"
)

// Classes is the likelihood ratio of balanced min-sep (F3.9) for at most MinSep bands, exact:
//
//	F_i^j = (1-η_i^j) F_{i+1}^j + η_i^j L_i F_{i+b}^{j-1},   F = 1 beyond the last step and for j = 0,
//
// with j participations left. The result is the mean of F_0 over the classes at the start.
type Classes struct {
	*balanced.Distribution
	Norms []float64 // ‖c_i‖²/σ²

	ring []float64 // ln F of the b steps ahead: class j of step i at (i mod b)·(Most+1) + j
	next []float64 // ln F_{i+1}
}

// NewClasses takes ‖c_i‖²/σ².
func NewClasses(l *balanced.Distribution, norms []float64) *Classes {
	return &Classes{Distribution: l, Norms: norms}
}

// Fork shares the tables.
func (c *Classes) Fork() Ratio { return &Classes{Distribution: c.Distribution, Norms: c.Norms} }

func (c *Classes) Reset() {
	if c.ring == nil {
		c.ring, c.next = make([]float64, c.MinSep*(c.Most+1)), make([]float64, c.Most+1)
	}
	clear(c.ring)
	clear(c.next)
}

func (c *Classes) Step(i int, u float64) {
	size := c.Most + 1
	ahead := c.ring[i%c.MinSep*size:][:size]
	joins := u - c.Norms[i]/2
	for j := c.Most; j > 0; j-- {
		h := c.Hazard(j, i)
		c.next[j] = LogSum(math.Log1p(-h)+c.next[j], math.Log(h)+joins+ahead[j-1])
	}
	copy(ahead, c.next)
}

func (c *Classes) LogRatio() float64 {
	most, less := c.Starts()
	return LogSum(math.Log(most)+c.next[c.Most], math.Log(less)+c.next[c.Most-1])
}

package likelihood

import (
	"math"

	"minsep/accounting/montecarlo/internal/law"
)

// Chain is the likelihood ratio of one example of any law, exact for columns that do not overlap
// with each other's where the example takes part twice:
//
//	F_i = (1-η_i) F_{i+1} + η_i L_i F_{next(i)},   F = 1 beyond the last step,
//
// for each free label, with the label that it has when it is free again. The result is the mean of
// F over the starts.
type Chain struct {
	*law.Chain
	norms []float64 // ‖c_i‖²/σ²

	ring [][]float64 // ln F by row: step i at i mod (Reach+1)
}

// NewChain is for a law and ‖c_i‖²/σ² of every step of a run.
func NewChain(l law.Law, norms []float64) *Chain {
	return &Chain{Chain: law.NewChain(l, len(norms)), norms: norms}
}

// Norms returns ‖c_i‖²/σ², not to be changed.
func (c *Chain) Norms() []float64 { return c.norms }

// Fork shares the tables.
func (c *Chain) Fork() Ratio { return &Chain{Chain: c.Chain, norms: c.norms} }

func (c *Chain) Reset() {
	if c.ring == nil {
		c.ring = make([][]float64, c.Rows)
		for row := range c.ring {
			c.ring[row] = make([]float64, c.Reach+1)
		}
	}
	for _, row := range c.ring {
		clear(row)
	}
}

func (c *Chain) Step(i int, u float64) {
	at := i % (c.Reach + 1)
	half := c.norms[i] / 2
	for row := 1; row < c.Rows; row++ {
		turn := c.Turn(row, i)
		join := turn.In + (u - half)
		if c.One { // samples have the bits of this order
			join = turn.In - half + u
		}
		c.ring[row][at] = LogSum(turn.Out+c.after(row, at+1), join+c.after(int(turn.Row), at+c.At(turn.Then, i)-i))
	}
}

// after is ln F at a slot of the ring, or beyond its end.
func (c *Chain) after(row, slot int) float64 {
	if slot > c.Reach {
		slot -= c.Reach + 1
	}
	return c.ring[row][slot]
}

func (c *Chain) LogRatio() float64 {
	total := math.Inf(-1)
	for _, s := range c.Starts {
		total = LogSum(total, s.LogProb()+c.ring[s.Row][c.At(s.Then, 0)])
	}
	return total
}

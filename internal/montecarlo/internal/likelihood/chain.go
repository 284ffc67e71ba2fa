package likelihood

import (
	"math"

	"minsep/internal/montecarlo/internal/law"
)

// Ratio is one recursion. Give it Reset, then Step for i = Steps-1, …, 0 in this order, then take
// LogRatio. It is not safe for concurrent use.
type Ratio interface {
	Reset()
	// Step takes u = ⟨c_i, y⟩/σ².
	Step(i int, u float64)
	LogRatio() float64
	// Fork returns the same ratio with a state of its own.
	Fork() Ratio
}

// LogRatio evaluates a ratio at y of Steps entries.
func LogRatio(ratio Ratio, c *Columns, noiseMultiplier float64, y []float64) float64 {
	ratio.Reset()
	for i := c.Steps - 1; i >= 0; i-- {
		ratio.Step(i, c.Dot(i, y)/(noiseMultiplier*noiseMultiplier))
	}
	return ratio.LogRatio()
}

// Chain is the likelihood ratio of one example of any law. It is exact where the columns of any two
// participations of the example do not overlap:
//
//	F_i = (1-η_i) F_{i+1} + η_i L_i F_{next(i)},   F = 1 beyond the last step,
//
// for each free label, with the label that it has when it is free again. The result is the mean of
// F over the starts.
type Chain struct {
	*law.Chain
	norms []float64 // ‖c_i‖²/σ²

	// Terms, unless nil, have e^{Terms[0][i]} in place of 1-η_i, and Σ_m e^{Terms[m][i] + m u_i} over
	// m ≥ 1 in place of η_i L_i: for bounds, and for owners of several examples.
	Terms [][]float64

	ring [][]float64 // ln F by row: step i at i mod (Reach+1)
}

// NewChain is for a law and ‖c_i‖²/σ² of every step of a run.
func NewChain(l law.Law, norms []float64) *Chain {
	return &Chain{Chain: law.NewChain(l, len(norms)), norms: norms}
}

// Norms returns ‖c_i‖²/σ², not to be changed.
func (c *Chain) Norms() []float64 { return c.norms }

// Fork shares the tables.
func (c *Chain) Fork() Ratio { return &Chain{Chain: c.Chain, norms: c.norms, Terms: c.Terms} }

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
	half := c.norms[i] / 2
	for row := 1; row < c.Rows; row++ {
		turn := c.Turn(row, i)
		stay, join := turn.Out, turn.In+(u-half)
		switch {
		case c.Terms != nil:
			stay, join = c.Terms[0][i], math.Inf(-1)
			for m, term := range c.Terms[1:] {
				join = LogSum(join, term[i]+float64(m+1)*u)
			}
		case c.One: // samples have the bits of this order
			join = turn.In - half + u
		}
		c.set(row, i, stay, join)
	}
}

// set sets ln F of a row at a step, given ln of the weights of none and of a participation.
func (c *Chain) set(row, i int, stay, join float64) {
	at, then := i%(c.Reach+1), c.Turn(row, i).Then
	c.ring[row][at] = LogSum(stay+c.after(row, at+1), join+c.after(int(then.Row), at+c.At(then, i)-i))
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

package likelihood

import "math"

// BallsInBins is the likelihood ratio of balls-in-bins sampling with period T (F3.4): any C, exact.
// An example participates at t, t+T, … with t uniform on 0 … T-1.
type BallsInBins struct {
	half []float64 // ‖m_t‖²/2σ²
	sums []float64 // ⟨m_t, y⟩/σ² so far
}

// NewBallsInBins prepares the norms of the sums of columns; factor is 1/σ².
func NewBallsInBins(c *Columns, period int, factor float64) *BallsInBins {
	ratio := &BallsInBins{half: make([]float64, period), sums: make([]float64, period)}
	sum := make([]float64, c.Steps)
	for t := range min(period, c.Steps) {
		c.SumEvery(sum, t, period)
		ratio.half[t] = factor * dot(sum, sum) / 2
	}
	return ratio
}

// Fork shares the norms.
func (b *BallsInBins) Fork() Ratio {
	return &BallsInBins{half: b.half, sums: make([]float64, len(b.sums))}
}

func (b *BallsInBins) Reset()                { clear(b.sums) }
func (b *BallsInBins) Step(i int, u float64) { b.sums[i%len(b.sums)] += u }

func (b *BallsInBins) LogRatio() float64 {
	total := math.Inf(-1)
	for t, sum := range b.sums {
		total = LogSum(total, sum-b.half[t])
	}
	return total - math.Log(float64(len(b.sums)))
}

// Cyclic is the likelihood ratio of cyclic Poisson sampling for at most b bands (F3.5): an example
// participates with probability p, independently, at the steps of its part s, s+b, …; s = 0, or
// uniform with WarmStart.
type Cyclic struct {
	logP, logQ  float64
	randomPhase bool
	half        []float64
	sums        []float64
}

// NewCyclic takes ‖c_i‖²/σ².
func NewCyclic(p Process, norms []float64) *Cyclic {
	ratio := &Cyclic{logP: math.Log(p.Prob), logQ: math.Log1p(-p.Prob), randomPhase: p.WarmStart, half: make([]float64, p.Steps), sums: make([]float64, p.MinSep)}
	for i, s := range norms {
		ratio.half[i] = s / 2
	}
	return ratio
}

// Fork shares the norms.
func (c *Cyclic) Fork() Ratio {
	fork := *c
	fork.sums = make([]float64, len(c.sums))
	return &fork
}

func (c *Cyclic) Reset() { clear(c.sums) }

func (c *Cyclic) Step(i int, u float64) {
	c.sums[i%len(c.sums)] += LogSum(c.logQ, c.logP+u-c.half[i])
}

func (c *Cyclic) LogRatio() float64 {
	if !c.randomPhase {
		return c.sums[0]
	}
	return logSum(c.sums) - math.Log(float64(len(c.sums)))
}

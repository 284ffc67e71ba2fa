package mechanism

import (
	"math"
	"slices"
)

// OptimalBLT returns the buffered linear Toeplitz strategy of least loss with so many buffers, with positive scales, so that its
// first column falls; the workload must be Toeplitz. An evaluation with gradient takes O(n·buffers).
//
// Gap is the largest derivative of ln(loss) by the logarithm of a scale or the log-odds of a decay.
func (p Problem) OptimalBLT(buffers int) (*Strategy, Convergence, error) {
	if err := p.validateToeplitz("buffers", buffers); err != nil {
		return nil, Convergence{}, err
	}
	o := p.newToeplitzObjective()
	n := float64(o.n)
	x := make([]float64, 2*buffers) // ln scale, then log-odds of the decay
	total := 0.0
	for m := range buffers { // 1 - decay spread between 1 and 1/n, scales like 1/√t, together ½
		rate := math.Pow(n, -(float64(m)+.5)/float64(buffers)) * .8
		x[buffers+m] = math.Log(1/rate - 1)
		x[m] = math.Sqrt(rate)
		total += x[m]
	}
	for m := range buffers {
		x[m] = math.Log(x[m] / total / 2)
	}
	blt := &BLT{Scales: make([]float64, buffers), Decays: make([]float64, buffers)}
	set := func(x []float64) {
		for m := range buffers {
			blt.Scales[m] = math.Exp(x[m])
			blt.Decays[m] = 1 / (1 + math.Exp(-x[buffers+m]))
		}
	}
	result, err := minimize(x, 5000, func(x, grad []float64) float64 {
		set(x)
		value := o.logBLTError(blt, grad) + o.logBLTSensitivity(blt, grad)
		for m := range buffers {
			grad[m] *= blt.Scales[m]
			grad[buffers+m] *= blt.Decays[m] * (1 - blt.Decays[m])
		}
		return value
	})
	if err != nil {
		return nil, result, err
	}
	set(x)
	blt.sort()
	return p.finish(&Strategy{Kind: KindBLT, Steps: o.n, BLT: blt}, result)
}

// sort puts the slowest buffer first.
func (b *BLT) sort() {
	order := make([]int, len(b.Decays))
	for m := range order {
		order[m] = m
	}
	slices.SortFunc(order, func(x, y int) int {
		if b.Decays[x] > b.Decays[y] {
			return -1
		}
		return 1
	})
	scales, decays := slices.Clone(b.Scales), slices.Clone(b.Decays)
	for to, m := range order {
		b.Scales[to], b.Decays[to] = scales[m], decays[m]
	}
}

// logBLTError returns ln Σ_i weight_i w_i², w = C⁻¹a through the buffers, and adds its gradient by scales, then decays, to grad.
func (o *toeplitzObjective) logBLTError(b *BLT, grad []float64) float64 {
	m := len(b.Scales)
	if len(o.l) != o.n*m {
		o.l, o.w = make([]float64, o.n*m), make([]float64, o.n)
	}
	buffer, g := make([]float64, m), make([]float64, 2*m)
	total := 0.0
	for t := range o.n {
		copy(o.l[t*m:], buffer)
		v := o.a[t]
		for j, scale := range b.Scales {
			v -= scale * buffer[j]
		}
		o.w[t] = v
		total += o.weight(t) * v * v
		for j, decay := range b.Decays {
			buffer[j] = decay*buffer[j] + v
		}
	}
	clear(buffer) // now the derivative by the buffers after step t
	for t := o.n - 1; t >= 0; t-- {
		v := 2 * o.weight(t) * o.w[t]
		for _, d := range buffer {
			v += d
		}
		for j, d := range buffer {
			g[j] -= v * o.l[t*m+j]
			g[m+j] += d * o.l[t*m+j]
			buffer[j] = b.Decays[j]*d - b.Scales[j]*v
		}
	}
	if math.IsInf(total, 0) || math.IsNaN(total) {
		return math.Inf(1)
	}
	for j, d := range g {
		grad[j] += d / total
	}
	return math.Log(total)
}

// logBLTSensitivity returns ln ‖Σ_{j<k} C[:, jb]‖² and adds its gradient by scales, then decays, to grad.
func (o *toeplitzObjective) logBLTSensitivity(b *BLT, grad []float64) float64 {
	square, g := columnSumSquare(b.appendColumn(nil, o.n), o.b, o.k)
	m := len(b.Scales)
	for j, decay := range b.Decays {
		power, derivative := 1.0, 0.0 // λ^(t-1) and its derivative
		byScale, byDecay := 0.0, 0.0
		for t := 1; t < o.n; t++ {
			byScale += g[t] * power
			byDecay += g[t] * derivative
			derivative = decay*derivative + power
			power *= decay
		}
		grad[j] += byScale / square
		grad[m+j] += byDecay * b.Scales[j] / square
	}
	return math.Log(square)
}

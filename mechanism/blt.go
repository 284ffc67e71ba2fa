package mechanism

import (
	"cmp"
	"context"
	"math"
	"slices"
)

// KindBLT is a buffered linear Toeplitz C.
const KindBLT = "blt"

func init() {
	register(Family{
		Kind: KindBLT, Rank: 110,
		Help:  "the best sum of at most --buffers exponentials",
		Size:  BuffersSize,
		bands: allBands,
		make:  optimalBLT,
	})
}

// maxDecay keeps decays apart from 1 in double precision.
const maxDecay = 1 - 1e-9

// optimalBLT returns the buffered linear Toeplitz strategy of least loss with at most p's number of
// buffers. Its scales are positive, so that its first column falls. The workload must be Toeplitz.
// Buffers are added one by one at the decay where the loss falls fastest, and all of them are
// optimised each time. If no further buffer of positive scale lowers the loss, the result has fewer.
// An evaluation with gradient takes O(n·buffers).
func optimalBLT(ctx context.Context, problem Problem, p Params) (*Strategy, error) {
	if err := problem.Workload.checkToeplitz(); err != nil {
		return nil, err
	}
	o := newToeplitzObjective(problem)
	blt := &BLT{}
	loss := math.Exp(o.logBLTError(blt, nil) + o.logBLTSensitivity(blt, nil)) // of independent noise
	for len(blt.Scales) < min(p.Buffers, o.n) {
		decay, found := o.nextDecay(blt)
		if !found {
			break
		}
		scale := .25
		for _, s := range blt.Scales {
			scale = min(scale, s/10)
		}
		blt = &BLT{append(slices.Clone(blt.Scales), scale), append(slices.Clone(blt.Decays), decay)}
		var err error
		if loss, err = minimizeBLT(ctx, o, blt); err != nil {
			return nil, err
		}
	}
	blt.sort()
	return problem.finish(&Strategy{Kind: KindBLT, Steps: o.n, BLT: blt}, loss)
}

// nextDecay returns the decay, of a grid, at which a new buffer lowers the loss fastest relative to
// its addition to the first column's norm. found is false if no buffer lowers the loss.
func (o *toeplitzObjective) nextDecay(b *BLT) (decay float64, found bool) {
	const grid = 64
	trial := &BLT{slices.Clone(b.Scales), slices.Clone(b.Decays)}
	for i := range grid { // 1 - decay from 0.9 to 1/(4n)
		rate := .9 * math.Pow(3.6*float64(o.n), -float64(i)/(grid-1))
		trial.Scales, trial.Decays = append(trial.Scales, 0), append(trial.Decays, 1-rate)
	}
	grad := make([]float64, 2*len(trial.Scales))
	o.logBLTError(trial, grad)
	o.logBLTSensitivity(trial, grad)
	best := -1e-9
	for m := len(b.Scales); m < len(trial.Scales); m++ {
		d := trial.Decays[m]
		if slope := grad[m] * math.Sqrt(1-d*d); slope < best {
			best, decay, found = slope, d, true
		}
	}
	return decay, found
}

// minimizeBLT optimises scales and decays in place, and returns their loss. Its variables are the
// logarithms of the scales and the log-odds of the decays.
func minimizeBLT(ctx context.Context, o *toeplitzObjective, b *BLT) (loss float64, err error) {
	buffers := len(b.Scales)
	x := make([]float64, 2*buffers)
	for m := range buffers {
		x[m] = math.Log(b.Scales[m])
		x[buffers+m] = math.Log(b.Decays[m] / (1 - b.Decays[m]))
	}
	set := func(x []float64) {
		for m := range buffers {
			b.Scales[m] = math.Exp(x[m])
			b.Decays[m] = min(maxDecay, 1/(1+math.Exp(-x[buffers+m])))
		}
	}
	loss, err = minimize(ctx, x, 5000, func(x, grad []float64) float64 {
		set(x)
		value := o.logBLTError(b, grad) + o.logBLTSensitivity(b, grad)
		for m := range buffers {
			grad[m] *= b.Scales[m]
			grad[buffers+m] *= b.Decays[m] * (1 - b.Decays[m])
		}
		return value
	})
	set(x)
	return loss, err
}

// sort puts the slowest buffer first.
func (b *BLT) sort() {
	order := make([]int, len(b.Decays))
	for m := range order {
		order[m] = m
	}
	slices.SortFunc(order, func(x, y int) int { return cmp.Compare(b.Decays[y], b.Decays[x]) })
	scales, decays := slices.Clone(b.Scales), slices.Clone(b.Decays)
	for to, m := range order {
		b.Scales[to], b.Decays[to] = scales[m], decays[m]
	}
}

// logBLTError returns ln Σ_i weight_i w_i², w = C⁻¹a through the buffers, and adds its gradient by
// scales, then decays, to grad.
func (o *toeplitzObjective) logBLTError(b *BLT, grad []float64) float64 {
	m := len(b.Scales)
	if len(o.w) != o.n || len(o.l) != o.n*m {
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

// logBLTSensitivity returns ln ‖Σ_{j<k} C[:, jb]‖² and adds its gradient by scales, then decays, to
// grad.
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

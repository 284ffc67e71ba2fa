package mechanism

import (
	"math"

	"gonum.org/v1/gonum/floats"
)

// autoregression evaluates the mean squared error of a banded Toeplitz C on a recursive workload
// with any learning rates, and its gradient, in O(n·bands). The noise y = C⁻¹z is an autoregression
// with the same coefficients at every step, and its autocovariances follow from the first column h
// of C⁻¹: Cov(y_i, y_{i-k}) = Σ_{d≤i-k} h_d h_{d+k}. Only the covariances of model and velocity
// with the last m = bands-1 values of y are carried from step to step, as in [bandedCovariance].
type autoregression struct {
	a    *Workload
	n, m int

	h              []float64 // [n] first column of C⁻¹
	coefficients   []float64 // [m] of y_{i-m} … y_{i-1} in y_i
	q              []float64 // [m+1] autocovariances at lags m … 0 so far
	model, speed   []float64 // [n] covariances of the model and the velocity with y_t, for the last m steps t
	state          covariance
	total          float64   // of the model's variances
	marks          []arMark  // of every arBlock steps
	oldModel       []float64 // [arBlock × m] model before each step of a block
	oldSpeed       []float64 // likewise
	hG, qG, uG     []float64 // derivatives by h, by the autocovariances at lags m … 0, and by coefficients
	modelG, speedG []float64 // likewise
}

// arMark is the state before a step: backward repeats a block of steps from it.
type arMark struct{ q, model, speed []float64 }

// arBlock is the number of steps that backward repeats at once. Marks and one block together take
// much less memory than the state of every step.
const arBlock = 256

// newAutoregression returns the evaluation for a workload and a number of bands.
func newAutoregression(a *Workload, bands int) *autoregression {
	n, m := a.Steps, bands-1
	vector := func(size int) []float64 { return make([]float64, size) }
	return &autoregression{
		a:            a,
		n:            n,
		m:            m,
		h:            vector(n),
		coefficients: vector(m),
		q:            vector(m + 1),
		model:        vector(n),
		speed:        vector(n),
		oldModel: vector(
			arBlock * m,
		),
		oldSpeed: vector(arBlock * m),
		hG:       vector(n),
		qG:       vector(m + 1),
		uG:       vector(m),
		modelG:   vector(n),
		speedG:   vector(n),
	}
}

// window returns the first of the last m steps before step i, and by how many they are fewer than
// m.
func (e *autoregression) window(i int) (low, missing int) {
	low = max(0, i-e.m)
	return low, e.m - (i - low)
}

// step takes the state from before step i to after it.
func (e *autoregression) step(i int) {
	low, missing := e.window(i)
	model, speed, u, q := e.model[low:i], e.speed[low:i], e.coefficients[missing:], e.q[missing:e.m]
	eta, keep, beta, pull := e.a.rate(i), e.a.keep(i), e.a.Momentum, e.a.pull()
	cs, cv := floats.Dot(u, model), floats.Dot(u, speed) // covariances of the old model and velocity with y_i
	floats.AddScaled(q, e.h[i], e.h[low:i])
	e.q[e.m] += e.h[i] * e.h[i]
	y := e.q[e.m]
	e.state.advance(e.a, i, y, cs, cv)
	for t, v := range q {
		s := beta*speed[t] + v - pull*model[t]
		speed[t] = s
		model[t] = keep*model[t] + eta*s
	}
	e.speed[i] = beta*cv + y - pull*cs
	e.model[i] = keep*cs + eta*e.speed[i]
	e.total += e.state.ss
}

// logError returns ln of the mean squared error of the Toeplitz C with first column c, and adds its
// gradient to grad.
func (e *autoregression) logError(c, grad []float64) float64 {
	clear(e.h)
	e.h[0] = 1
	solveToeplitz(e.h, c, append([]float64(nil), e.h...))
	for j := range e.m {
		e.coefficients[j] = -c[e.m-j] / c[0]
	}
	clear(e.q)
	e.state, e.total, e.marks = covariance{}, 0, e.marks[:0]
	for i := range e.n {
		if i%arBlock == 0 {
			low, _ := e.window(i)
			e.marks = append(
				e.marks,
				arMark{
					append([]float64(nil), e.q...),
					append([]float64(nil), e.model[low:i]...),
					append([]float64(nil), e.speed[low:i]...),
				},
			)
		}
		e.step(i)
	}
	total := e.total
	if math.IsInf(total, 0) || math.IsNaN(total) || !(total > 0) {
		return math.Inf(1)
	}
	e.backward()
	addSolveGradient(grad, c, e.h, e.hG, total)
	inverse := 1 / c[0]
	for j, v := range e.uG {
		grad[e.m-j] -= v * inverse / total
		grad[0] += v * c[e.m-j] * inverse * inverse / total
	}
	return math.Log(total / float64(e.n))
}

// backward fills the derivatives of the sum of the model's variances by h and by the coefficients.
// It takes the steps in reverse, and repeats each block of them from its mark. A name with G is the
// derivative by that quantity.
func (e *autoregression) backward() {
	for _, x := range [][]float64{e.hG, e.qG, e.uG, e.modelG, e.speedG} {
		clear(x)
	}
	beta, pull := e.a.Momentum, e.a.pull()
	var stateG covariance
	for b := len(e.marks) - 1; b >= 0; b-- {
		first, end := b*arBlock, min(e.n, (b+1)*arBlock)
		low, _ := e.window(first)
		copy(e.q, e.marks[b].q)
		copy(e.model[low:first], e.marks[b].model)
		copy(e.speed[low:first], e.marks[b].speed)
		for i := first; i < end; i++ {
			low, missing := e.window(i)
			copy(e.oldModel[(i-first)*e.m+missing:], e.model[low:i])
			copy(e.oldSpeed[(i-first)*e.m+missing:], e.speed[low:i])
			e.step(i)
		}
		for i := end - 1; i >= first; i-- {
			low, missing := e.window(i)
			at := (i-first)*e.m + missing
			oldModel, oldSpeed := e.oldModel[at:at+i-low], e.oldSpeed[at:at+i-low]
			eta, keep := e.a.rate(i), e.a.keep(i)
			yG, csG, cvG := stateG.retreat(e.a, i)
			own := e.speedG[i] + eta*e.modelG[i]
			csG = csG + keep*e.modelG[i] - pull*own
			cvG += beta * own
			modelG, speedG, qG, u := e.modelG[low:i], e.speedG[low:i], e.qG[missing:e.m], e.coefficients[missing:]
			for t, v := range u {
				g := speedG[t] + eta*modelG[t]
				qG[t] += g
				modelG[t] = keep*modelG[t] - pull*g + csG*v
				speedG[t] = beta*g + cvG*v
			}
			floats.AddScaled(e.uG[missing:], csG, oldModel)
			floats.AddScaled(e.uG[missing:], cvG, oldSpeed)
			e.qG[e.m] += yG + own
			e.hG[i] += floats.Dot(qG, e.h[low:i]) + 2*e.qG[e.m]*e.h[i]
			floats.AddScaled(e.hG[low:i], e.h[i], qG)
		}
	}
}

package mechanism

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
)

// OptimalInverseToeplitz returns the strategy of least loss whose inverse is Toeplitz with so many bands (BandInvMF).
// The workload must be Toeplitz. With several participations C's first column must be non-negative and not rise
// from index MinSep on, for its sensitivity to be known (F2): another optimum is refused with [ErrNotConverged]. Gap as for [Problem.OptimalToeplitz].
func (p Problem) OptimalInverseToeplitz(bands int) (*Strategy, Convergence, error) {
	if err := p.validateToeplitz("bands", bands); err != nil {
		return nil, Convergence{}, err
	}
	o := p.newToeplitzObjective()
	x := make([]float64, bands-1)
	fractional(x, -.5)
	result, err := minimize(x, 2000, func(x, grad []float64) float64 {
		h := append([]float64{1}, x...)
		g := make([]float64, len(h))
		value := o.logInverseError(h, g) + o.logInverseSensitivity(h, g)
		copy(grad, g[1:])
		return value
	})
	if err != nil {
		return nil, result, err
	}
	s := &Strategy{Kind: KindBandInv, Steps: p.Workload.Steps, InverseToeplitz: append([]float64{1}, x...)}
	if o.k > 1 && !s.columnSumHolds(o.b) {
		return nil, result, fmt.Errorf("%w: C's first column is negative, or rises beyond min-sep, so that its sensitivity is not known; take fewer bands", ErrNotConverged)
	}
	return p.finish(s, result)
}

// logInverseError returns ln Σ_i weight_i w_i², w = H a with the first column h of H = C⁻¹, and adds its gradient.
func (o *toeplitzObjective) logInverseError(h, grad []float64) float64 {
	settled := min(o.n, o.settled+len(h)) // w is constant from here on, and its derivatives too
	g := make([]float64, len(h))
	total := 0.0
	for i := range settled {
		v := 0.0
		for j := 0; j < len(h) && j <= i; j++ {
			v += h[j] * o.a[i-j]
		}
		weight := o.weight(i)
		if i == settled-1 {
			weight = o.tailWeight(i)
		}
		total += weight * v * v
		for j := 0; j < len(h) && j <= i; j++ {
			g[j] += 2 * weight * v * o.a[i-j]
		}
	}
	floats.AddScaled(grad, 1/total, g)
	return math.Log(total)
}

// logInverseSensitivity returns ln ‖Σ_{j<k} C[:, jb]‖² with C = H⁻¹ and adds its gradient by h.
func (o *toeplitzObjective) logInverseSensitivity(h, grad []float64) float64 {
	c := appendSeriesInverse(nil, h, o.n)
	square, g := columnSumSquare(c, o.b, o.k)
	if math.IsInf(square, 0) || math.IsNaN(square) {
		return math.Inf(1)
	}
	// g becomes H^-T g; the derivative by h_j is -Σ_i g_i c_{i-j}
	inverse := 1 / h[0]
	for i := o.n - 1; i >= 0; i-- {
		tail := g[i+1 : min(o.n, i+len(h))]
		g[i] = (g[i] - floats.Dot(h[1:1+len(tail)], tail)) * inverse
	}
	for j := range h {
		grad[j] -= floats.Dot(g[j:], c[:o.n-j]) / square
	}
	return math.Log(square)
}

// columnSumSquare returns ‖Σ_{j<k} C[:, jb]‖² of the Toeplitz matrix with first column c, and its gradient by c, in O(n).
func columnSumSquare(c []float64, b, k int) (float64, []float64) {
	n := len(c)
	v := make([]float64, n) // v_t = Σ_{j<k} c_{t-jb}
	square := 0.0
	for t := range v {
		v[t] = c[t]
		if t >= b {
			v[t] += v[t-b]
		}
		if t >= k*b {
			v[t] -= c[t-k*b]
		}
		square += v[t] * v[t]
	}
	g := make([]float64, n) // 2 Σ_{j<k} v_{t+jb}
	for t := n - 1; t >= 0; t-- {
		g[t] = 2 * v[t]
		if t+b < n {
			g[t] += g[t+b]
		}
		if t+k*b < n {
			g[t] -= 2 * v[t+k*b]
		}
	}
	return square, g
}

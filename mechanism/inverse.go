package mechanism

import (
	"context"
	"fmt"
	"math"
	"slices"

	"gonum.org/v1/gonum/floats"
)

// KindBandInv is the optimised banded Toeplitz C⁻¹ (arXiv 2605.18379).
const KindBandInv = "band-inv"

func init() {
	register(Family{
		Kind: KindBandInv, Rank: 90,
		Help:  "the best Toeplitz inverse of --bands bands",
		Size:  BandsSize,
		bands: inverseBands,
		make: func(ctx context.Context, problem Problem, p Params) (*Strategy, error) {
			return optimalInverseToeplitz(ctx, problem, p.Bands)
		},
	})
}

// optimalInverseToeplitz returns the strategy of least loss with a Toeplitz inverse of the given
// number of bands (BandInvMF). The workload must be Toeplitz. With several participations the
// sensitivity is known exactly only if C's first column is non-negative and does not rise from
// index MinSep on (F2). If the optimum by that formula breaks this rule, further optimisations
// penalise rises more and more. Of their optima the one with the least loss by the proven upper
// bound of its sensitivity is returned.
func optimalInverseToeplitz(ctx context.Context, p Problem, bands int) (*Strategy, error) {
	if err := p.Workload.checkToeplitz(); err != nil {
		return nil, err
	}
	o := newToeplitzObjective(p)
	// The variables are the sums h_0 + … + h_j, in which the loss is well conditioned. For prefix
	// sums they are the terms of the error. C² is near the prefix matrix, so a change of a sum is
	// near a change of C's first column. The last sum counts for all steps after it.
	h, g, x := make([]float64, bands), make([]float64, bands), make([]float64, bands-1)
	h[0] = 1
	fractional(h[1:], -.5)
	last := math.Sqrt(1 + o.tailWeight(bands-1)/o.weight(0))
	sum := 1.0
	for j := range x {
		sum += h[j+1]
		x[j] = sum
	}
	if bands > 1 {
		x[bands-2] *= last
	}
	set := func(x []float64) {
		before := 1.0
		for j, v := range x {
			if j == len(x)-1 {
				v /= last
			}
			h[j+1] = v - before
			before = v
		}
	}
	evaluate := func(penalty float64) func(x, grad []float64) float64 {
		return func(x, grad []float64) float64 {
			set(x)
			clear(g)
			value := o.logInverseError(h, g) + o.logInverseSensitivity(h, g, penalty)
			for j := range grad {
				grad[j] = g[j+1]
				if j+2 < len(g) {
					grad[j] -= g[j+2]
				} else {
					grad[j] /= last
				}
			}
			return value
		}
	}
	var best *Strategy
	least := math.Inf(1)
	for penalty := 0.; penalty <= 1e8; penalty = max(100, 10*penalty) {
		loss, err := minimize(ctx, x, 10000, evaluate(penalty))
		if err != nil && (best == nil || ctx.Err() != nil) {
			return nil, err
		} else if err != nil {
			break
		}
		set(x)
		s := &Strategy{Kind: KindBandInv, Steps: p.Workload.Steps, InverseToeplitz: slices.Clone(h)}
		if penalty == 0 && (o.k == 1 || s.columnSumHolds(o.b)) {
			return p.finish(s, loss)
		}
		if s.Validate() == nil {
			if l, err := p.Loss(s); err == nil && l < least {
				best, least = s, l
			}
		}
	}
	if best == nil {
		return nil, fmt.Errorf("%w: no inverse of %d bands is stable", ErrNotConverged, bands)
	}
	return best, nil
}

// logInverseError returns ln Σ_i weight_i w_i², w = H a with the first column h of H = C⁻¹, and
// adds its gradient.
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

// logInverseSensitivity returns ln ‖Σ_{j<k} C[:, jb]‖² with C = H⁻¹, plus penalty times the sum of
// the squared rises of C's first column from index b on, as if an entry of zero followed its last.
// It adds the gradient by h to grad.
func (o *toeplitzObjective) logInverseSensitivity(h, grad []float64, penalty float64) float64 {
	c := appendSeriesInverse(nil, h, o.n)
	square, g := columnSumSquare(c, o.b, o.k)
	if math.IsInf(square, 0) || math.IsNaN(square) {
		return math.Inf(1)
	}
	value := math.Log(square)
	if penalty > 0 {
		for t := o.b; t < o.n; t++ {
			next := 0.0
			if t+1 < o.n {
				next = c[t+1]
			}
			if rise := next - c[t]; rise > 0 {
				value += penalty * rise * rise
				g[t] -= 2 * penalty * rise * square
				if t+1 < o.n {
					g[t+1] += 2 * penalty * rise * square
				}
			}
		}
	}
	addSolveGradient(grad, h, c, g, square)
	return value
}

// columnSumSquare returns ‖Σ_{j<k} C[:, jb]‖² of the Toeplitz matrix with first column c, and its
// gradient by c, in O(n).
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

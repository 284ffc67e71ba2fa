package tilt

import (
	"fmt"
	"math"
	"slices"

	"minsep/accounting/montecarlo/internal/kernel"
	"minsep/accounting/montecarlo/internal/likelihood"
)

// bins is the tuple distribution of balls-in-bins (F3.4) for any C, orders 1 to 3.
//
// P = (1/T) Σ_t N(m_t, σ²I), so f(y) = (1/T) Σ_t e^{⟨m_t,y⟩/σ² - ‖m_t‖²/2σ²} and, expanding the
// product over θ replicas,
//
//	f^θ = T^-θ Σ_{t_1..t_θ} e^{⟨m_{t_1}+…+m_{t_θ}, y⟩/σ² - Σ_j ‖m_{t_j}‖²/2σ²}.
//
// With E_Q e^{⟨m,y⟩/σ²} = e^{‖m‖²/2σ²} each term has mean e^{Σ_{j<k} G(t_j,t_k)}, G(s,t) =
// ⟨m_s,m_t⟩/σ², and, over its mean, is the density of N(m_{t_1}+…+m_{t_θ}, σ²I) against Q. So N_θ =
// T^-θ Σ e^{Σ_{j<k} G(t_j,t_k)}, and y with density f^θ/N_θ is made from a tuple of bins drawn with
// probability proportional to its term. With W = e^G entrywise: N_2 = T^-2 Σ W, N_3 = T^-3 Σ_{s,t}
// W(s,t) (W²)(s,t), and given (s,t) the third bin has probability ∝ W(s,u) W(t,u).
type bins struct {
	steps, period, order int
	w                    []float64 // W/max W, T×T
	cumulative           []float64 // of the weights of (s,t)
	logN                 float64
}

// maxBinWork bounds multiplications for the Gram matrix and for W².
const maxBinWork = 4e10

func newBins(c *likelihood.Columns, period, order int, factor float64) (*bins, error) {
	t := period
	if order > 3 || float64(t)*float64(t)*float64(c.Steps+t) > maxBinWork || 2*8*t*t > maxTableBytes {
		return nil, fmt.Errorf("%w: order %d of balls-in-bins with period %d and %d steps is too much work", ErrTable, order, t, c.Steps)
	}
	b := &bins{steps: c.Steps, period: t, order: order}
	if order == 1 {
		return b, nil
	}
	means := make([][]float64, t)
	for s := range means {
		means[s] = make([]float64, c.Steps)
		c.SumEvery(means[s], s, t)
	}
	b.w = make([]float64, t*t)
	for s := range t {
		first := min(s, c.Steps) // m_s is 0 before step s
		for u := 0; u <= s; u += rows {
			var from [rows][]float64
			for i := range from {
				from[i] = means[min(u+i, s)][first:]
			}
			for i, g := range products(means[s][first:], from) {
				if v := u + i; v <= s {
					b.w[s*t+v], b.w[v*t+s] = factor*g, factor*g
				}
			}
		}
	}
	top := slices.Max(b.w)
	for i := range b.w {
		b.w[i] = math.Exp(b.w[i] - top)
	}
	b.cumulative = make([]float64, t*t)
	total := 0.0
	for s := range t {
		row := b.w[s*t : s*t+t]
		for u := 0; u < t; u += rows {
			sums := [rows]float64{1, 1, 1, 1}
			if order == 3 {
				var of [rows][]float64
				for i := range of {
					v := min(u+i, t-1)
					of[i] = b.w[v*t : v*t+t]
				}
				sums = products(row, of)
			}
			for i := range min(rows, t-u) {
				total += row[u+i] * sums[i]
				b.cumulative[s*t+u+i] = total
			}
		}
	}
	pairs := float64(order * (order - 1) / 2)
	b.logN = math.Log(total) + pairs*top - float64(order)*math.Log(float64(t))
	return b, nil
}

// rows is how many inner products are taken together, which hides the latency of a sum.
const rows = 4

// products are the inner products of x with each row, which must be as long.
func products(x []float64, of [rows][]float64) [rows]float64 {
	var s0, s1, s2, s3 float64
	a, b, c, d := of[0][:len(x)], of[1][:len(x)], of[2][:len(x)], of[3][:len(x)]
	for i, v := range x {
		s0 += v * a[i]
		s1 += v * b[i]
		s2 += v * c[i]
		s3 += v * d[i]
	}
	return [rows]float64{s0, s1, s2, s3}
}

// draw appends one tuple to hits[:0].
func (b *bins) draw(hits []kernel.Hit, u *uniforms) []kernel.Hit {
	hits = hits[:0]
	t := b.period
	if b.order == 1 {
		return b.appendBin(hits, min(t-1, int(u.float64()*float64(t))))
	}
	total := b.cumulative[t*t-1]
	pair, _ := slices.BinarySearch(b.cumulative, u.float64()*total)
	pair = min(pair, t*t-1)
	s, v := pair/t, pair%t
	hits = b.appendBin(hits, s)
	hits = b.appendBin(hits, v)
	if b.order == 3 {
		sum := 0.0
		for r := range t {
			sum += b.w[s*t+r] * b.w[v*t+r]
		}
		x, third := u.float64()*sum, t-1
		for r := range t {
			if x -= b.w[s*t+r] * b.w[v*t+r]; x < 0 {
				third = r
				break
			}
		}
		hits = b.appendBin(hits, third)
	}
	slices.SortFunc(hits, func(a, b kernel.Hit) int { return a.Step - b.Step })
	return hits
}

func (b *bins) appendBin(hits []kernel.Hit, t int) []kernel.Hit {
	for i := t; i < b.steps; i += b.period {
		hits = append(hits, kernel.Hit{Step: i, Times: 1})
	}
	return hits
}

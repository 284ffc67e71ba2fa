package tilt

import (
	"fmt"
	"math"
	"slices"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
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
	top                  float64   // ln max W
	cumulative           []float64 // of the weights of (s,t)
	logN                 float64
}

// newBins makes the tables of an order. If below is not nil, it has the tables of a lower order
// for the same C, period and factor, and so the Gram matrix that all orders share.
func newBins(c *likelihood.Columns, period, order int, factor float64, below *bins) (*bins, error) {
	t := period
	if order > 3 || float64(t)*float64(t)*float64(c.Steps+t) > maxProducts || 2*8*t*t > maxTableBytes {
		return nil, fmt.Errorf("%w: order %d of balls-in-bins with period %d and %d steps is too much work", ErrTable, order, t, c.Steps)
	}
	b := &bins{steps: c.Steps, period: t, order: order}
	if order == 1 {
		return b, nil
	}
	if below != nil && below.w != nil {
		b.w, b.top = below.w, below.top
	} else {
		b.makePairs(c, factor)
	}
	b.cumulative = make([]float64, t*t)
	if order == 3 { // (W²)(s,t), which is symmetric
		square(t, b.w, b.cumulative)
	}
	total := 0.0
	for i, w := range b.w {
		if order == 3 {
			w *= b.cumulative[i]
		}
		total += w
		b.cumulative[i] = total
	}
	pairs := float64(order * (order - 1) / 2)
	b.logN = math.Log(total) + pairs*b.top - float64(order)*math.Log(float64(t))
	return b, nil
}

// newBinSource makes the source of an order, as newBins.
func newBinSource(c *likelihood.Columns, period, order int, factor float64, below *bins) (*source, error) {
	b, err := newBins(c, period, order, factor, below)
	if err != nil {
		return nil, err
	}
	s := &source{walkError: 1e-12, walker: exactly(b.draw)}
	if order > 1 {
		s.lnN, s.raised = b.logN, inflation
	}
	s.above = func(order int) (*source, error) { return newBinSource(c, period, order, factor, b) }
	return s, nil
}

// makePairs sets W over its largest entry.
func (b *bins) makePairs(c *likelihood.Columns, factor float64) {
	t := b.period
	means := make([][]float64, t)
	for s := range means {
		means[s] = make([]float64, c.Steps)
		c.SumEvery(means[s], s, t)
	}
	b.w = make([]float64, t*t)
	innerProducts(t, func(s, v int) []float64 { return means[v][min(s, c.Steps):] }, b.w) // m_s is 0 before step s
	for i, g := range b.w {
		b.w[i] = factor * g
	}
	b.top = slices.Max(b.w)
	for i := range b.w {
		b.w[i] = math.Exp(b.w[i] - b.top)
	}
}

// square sets dst to the square of a symmetric matrix w, t×t.
func square(t int, w, dst []float64) {
	columns := make([]kernel.Row, t)
	var sums kernel.Row
	for from := 0; from < t; from += kernel.Lanes {
		for i := range columns {
			columns[i] = kernel.Row{}
			copy(columns[i][:], w[i*t+from:i*t+min(from+kernel.Lanes, t)])
		}
		for s := from; s < t; s++ {
			kernel.Products(&sums, columns, w[s*t:s*t+t])
			for v := from; v < min(from+kernel.Lanes, s+1); v++ {
				dst[s*t+v], dst[v*t+s] = sums[v-from], sums[v-from]
			}
		}
	}
}

// innerProducts sets dst, t×t, to the inner products of t vectors. of(s, v) has the entries of
// vector v ≤ s that count in the product with vector s.
func innerProducts(t int, of func(s, v int) []float64, dst []float64) {
	for s := range t {
		for u := 0; u <= s; u += rows {
			var from [rows][]float64
			for i := range from {
				from[i] = of(s, min(u+i, s))
			}
			for i, g := range products(of(s, s), from) {
				if v := u + i; v <= s {
					dst[s*t+v], dst[v*t+s] = g, g
				}
			}
		}
	}
}

// rows is how many inner products are taken together, which hides the latency of a sum.
const rows = 4

// products are the inner products of x with each row, which must have at least len(x) entries.
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
		return b.appendBin(hits, min(t-1, int(u.Float64()*float64(t))))
	}
	total := b.cumulative[t*t-1]
	pair, _ := slices.BinarySearch(b.cumulative, u.Float64()*total)
	pair = min(pair, t*t-1)
	s, v := pair/t, pair%t
	hits = b.appendBin(hits, s)
	hits = b.appendBin(hits, v)
	if b.order == 3 {
		sum := 0.0
		for r := range t {
			sum += b.w[s*t+r] * b.w[v*t+r]
		}
		x, third := u.Float64()*sum, t-1
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

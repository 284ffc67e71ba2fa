package kernel

import (
	"math"

	"minsep/accounting/montecarlo/internal/likelihood"
)

// renewal is f_i = q f_{i+1} + Σ_m 2^(m t_i + a_im) f_{i+b} in linear scale: likelihood.Renewal,
// mostly with the one term m = 1 (F3.2).
//
// Range. A lane is divided by a power of two when f_i leaves [2^-top, 2^top], looked at every J·b
// rows. Let |t| ≤ limit, X = terms·limit + max(a, 0) + log2(terms), Λ = b·log2(1/q). Since f_i ≥ q
// f_{i+1}, and since one jump from b rows multiplies by at most 2^X in all, the b values that are
// needed lie in 2^(-X-Λ-1) … 2^Λ times the latest. Until the next look they grow by at most J·(X+1)
// and shrink by at most J·Λ in log2. So top + Λ + J·(X+1+Λ) ≤ maxRange keeps all of them normal
// numbers.
type renewal struct {
	ratio    *likelihood.Renewal
	b        int
	stay     [1]float64  // q
	a        []float64   // log2 of the weight of a jump, or nil with several terms
	weights  [][]float64 // of the terms at each step, when there are several
	limit    float64
	interval int

	f     []Row // f of the rows of a block and of the b after it
	ahead []Row // f of the b rows after the next block
	log2  Row   // log2 of the divisors of the lanes
}

const (
	top      = 100 // log2 of the values that are rescaled
	maxRange = 1000
)

// newRenewal returns nil when the ratio has no range in linear scale.
func newRenewal(l *likelihood.Renewal) Recursion {
	if math.IsInf(l.LogStay, -1) {
		return nil
	}
	terms := float64(len(l.Jump))
	r := &renewal{ratio: l, b: l.MinSep, stay: [1]float64{math.Exp(l.LogStay)}}
	largest, deepest := math.Inf(-1), 0.0
	for _, jump := range l.Jump {
		for _, v := range jump {
			largest = max(largest, v*math.Log2E)
			if !math.IsInf(v, -1) {
				deepest = min(deepest, v*math.Log2E)
			}
		}
	}
	if len(l.Jump) == 1 {
		r.a = multiplied(l.Jump[0], math.Log2E)
	} else {
		for i := range l.Steps {
			weights := make([]float64, len(l.Jump))
			for m, jump := range l.Jump {
				weights[m] = math.Exp(jump[i])
			}
			r.weights = append(r.weights, weights)
		}
	}
	loss := -l.LogStay * math.Log2E // log2(1/q), a row
	shrink := float64(r.b) * loss
	jumps := max(1, 32/r.b)
	for ; ; jumps-- { // rare looks, unless they cost range that may be needed
		r.limit = ((maxRange-top-shrink)/float64(jumps) - shrink - 1 - max(largest, 0) - math.Log2(terms)) / terms
		if r.limit >= 200/terms || jumps == 1 {
			break
		}
	}
	r.limit = min(r.limit, (maxExponent+deepest)/terms)
	if r.limit < 20 {
		return nil
	}
	r.interval = jumps * r.b
	return r.Fork()
}

func (r *renewal) Fork() Recursion {
	fork := *r
	fork.f, fork.ahead = nil, make([]Row, r.b)
	return &fork
}

func (r *renewal) Limit() float64 { return r.limit }

func (r *renewal) Reset() {
	for i := range r.ahead {
		r.ahead[i] = Row{1, 1, 1, 1, 1, 1, 1, 1}
	}
	r.log2 = Row{}
}

func (r *renewal) Rows(first int, t []Row, check bool) bool {
	if check && !between(t, -r.limit, r.limit) {
		return false
	}
	count := len(t)
	if len(r.f) < count+r.b {
		r.f = make([]Row, count+r.b)
	}
	copy(r.f[count:], r.ahead)
	for end := count; end > 0; {
		from := max(0, end-r.interval)
		if r.a != nil {
			renewalRows(r.f[from:end+r.b], t[from:end], r.a[first+from:first+end], r.stay[:], r.f[from+r.b:end+r.b])
		} else {
			r.polynomialRows(r.f[from:end+r.b], t[from:end], r.weights[first+from:first+end])
		}
		r.rescale(r.f[from : from+r.b])
		end = from
	}
	copy(r.ahead, r.f[:r.b])
	return true
}

// polynomialRows is renewalRows with several terms.
func (r *renewal) polynomialRows(f, t []Row, weights [][]float64) {
	for i := len(t) - 1; i >= 0; i-- {
		next, jump, out := &f[i+1], &f[i+r.b], &f[i]
		for l, x := range t[i] {
			x, sum := exp2(x), 0.0
			for m := len(weights[i]) - 1; m >= 0; m-- {
				sum = (sum + weights[i][m]) * x
			}
			out[l] = math.FMA(r.stay[0], next[l], sum*jump[l])
		}
	}
}

// rescale divides the lanes of rows that have left the range; f[0] is the latest row.
func (r *renewal) rescale(f []Row) {
	for l := range Lanes {
		if factor, log2 := backInRange(f[0][l]); log2 != 0 {
			for i := range f {
				f[i][l] *= factor
			}
			r.log2[l] += log2
		}
	}
}

// backInRange returns the power of two to multiply v > 0 with, and log2 of its inverse, when v has
// left [2^-top, 2^top]; else 1 and 0.
func backInRange(v float64) (factor, log2 float64) {
	if v <= 1/smallest && v >= smallest {
		return 1, 0
	}
	e := math.Ilogb(v)
	return math.Ldexp(1, -e), float64(e)
}

const smallest = 1.0 / (1 << 50) / (1 << 50) // 2^-top

func (r *renewal) LogRatio(dst *Row) {
	var sum Row
	for i, weight := range r.ratio.Start {
		w := math.Exp(weight)
		for l := range sum {
			sum[l] += float64(w * r.ahead[i][l])
		}
	}
	for l, v := range sum {
		dst[l] = r.ratio.Times * (math.Log(v) + r.log2[l]*math.Ln2)
	}
}

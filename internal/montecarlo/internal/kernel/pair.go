package kernel

import (
	"math"

	"minsep/internal/montecarlo/internal/likelihood"
)

// pair is the likelihood ratio of an owner of two examples (F4.2) in linear scale, of a law that is
// the same at every step, and whose columns do not overlap: F_j with both
// free at step j, H_{j,t} with one that participated t steps ago,
//
//	F_j = q² F_{j+1} + 2pq L_j H_{j+1,1} + p² L_j² e^{-s_j} F_{j+b},   s_j = ‖c_j‖²/σ²,
//	H_{j,t} = q H_{j+1,t+1} + p L_j g(j,t) H_{j+b-t,b-t},   H_{j,b} = F_j.
//
// With G_{j,t} = q^(t-b) H_{j,t} the second line is G_{j,t} = G_{j+1,t+1} + p g(j,t) q^(2t-b)
// L_j G_{j+b-t,b-t}: the b values of a step are made of the row after it and of the entries
// G_{j+s,s} of b-1 rows, which belong to a participation at j.
//
// Range. |t_j| ≤ limit bounds L_j by 2^X, X = limit. Two examples participate at most twice in b
// steps, g ≤ 1, and staying silent costs q a step, so with Λ = b·log2(1/q) values of a row differ
// from its F by at most 2^Λ upward and 2^(2X+2Λ) downward, F over b rows by 2^(2X+Λ) upward and
// 2^(2Λ) downward, and G from H by 2^Λ. With a look every b rows all stay within top + 4X + 6Λ.
type pair struct {
	n          int
	p, q       float64
	a          []float64 // log2 of L at t = 0
	both       []float64 // p² e^{-s_j}
	one, stay  float64   // the other factors of F
	weights    *weights  // p g(j,t) q^(2t-b)
	start      []float64 // stationary probabilities of the first waits
	limit      float64
	pairTable  // G_{j,t}; G_{j,b} = F_j
	log2       Row
	untilCheck int
}

// newPair returns nil when the ratio has no range in linear scale, or another law.
func newPair(o *likelihood.Examples) *pair {
	law, ok := o.Renewal()
	if !ok || o.Count != 2 || law.Prob == 1 {
		return nil
	}
	p, b := law.Prob, law.MinSep
	r := &pair{n: o.Steps, pairTable: pairTable{b: b}, p: p, q: 1 - p, start: law.Waits}
	logP, logQ := math.Log(p), math.Log1p(-p)
	shrink := -float64(b) * logQ * math.Log2E
	r.limit = (maxRange - top - 6*shrink) / 4
	for _, s := range o.Norms {
		r.a = append(r.a, -s/2*math.Log2E)
		r.both = append(r.both, r.p*r.p*math.Exp(-s))
		r.limit = min(r.limit, maxExponent-100-s/2*math.Log2E)
	}
	if r.limit < 20 {
		return nil
	}
	r.stay = r.q * r.q
	r.one = 2 * r.p * math.Pow(r.q, float64(r.b)) // H_{j+1,1} is q^(b-1) G
	r.weights = newWeights(o.Gram(), b, func(t int) float64 { return logP + float64(2*t-b)*logQ })
	return r.Fork().(*pair)
}

const (
	// top is log2 of the values that are divided, and maxRange a bound of log2 of all.
	top      = 100
	maxRange = 1000
)

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

func (r *pair) Fork() Recursion {
	fork := *r
	fork.pairTable = newPairTable(r.b, r.n)
	return &fork
}

func (r *pair) Limit() float64 { return r.limit }

func (r *pair) Reset() {
	for i := range r.table {
		v := math.Pow(r.q, float64(i%(r.b+1)-r.b))
		r.table[i] = Row{v, v, v, v, v, v, v, v}
	}
	r.log2 = Row{}
	r.untilCheck = r.b
}

func (r *pair) Rows(first int, t []Row, check bool) bool {
	if check && !between(t, -r.limit, r.limit) {
		return false
	}
	return r.each(first, t, r.a, func(j int, jump *Row) bool {
		r.step(j, jump)
		if r.untilCheck--; r.untilCheck == 0 {
			r.rescale(r.line(j)[r.b])
			r.untilCheck = r.b
		}
		return true
	})
}

// step goes from row j+1 to row j; jump is L_j.
func (r *pair) step(j int, jump *Row) {
	b := r.b
	next, out := r.line(j+1), r.line(j)
	r.diagonal(j, 1, b, r.weights.rows[r.weights.index[j]], jump, 1)
	both, after, far, free := r.both[j], &next[1], &r.line(j + b)[b], &next[b]
	for l, v := range jump {
		out[b][l] = math.FMA(v, math.FMA(both*v, far[l], r.one*after[l]), r.stay*free[l])
	}
}

// rescale divides the lanes in which latest has left the range by a power of two.
func (r *pair) rescale(latest Row) {
	for l, v := range latest {
		if factor, log2 := backInRange(v); log2 != 0 {
			for i := range r.table {
				r.table[i][l] *= factor
			}
			r.log2[l] += log2
		}
	}
}

func (r *pair) LogRatio(dst *Row) { r.logRatio(dst, r.start, r.q, &r.log2) }

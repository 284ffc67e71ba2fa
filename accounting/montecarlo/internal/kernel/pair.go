package kernel

import (
	"math"

	"minsep/accounting/montecarlo/internal/law"
)

// pair is the law of an owner of two examples (F4.2) in linear scale: F_j with both free at step j, H_{j,t} with one that participated t
// steps ago,
//
//	F_j = q² F_{j+1} + 2pq L_j H_{j+1,1} + p² L_j² e^{-s_j} F_{j+b},   s_j = ‖c_j‖²/σ²,
//	H_{j,t} = q H_{j+1,t+1} + p L_j g(j,t) H_{j+b-t,b-t},   H_{j,b} = F_j.
//
// With G_{j,t} = q^(t-b) H_{j,t} the second line is G_{j,t} = G_{j+1,t+1} + p g(j,t) q^(2t-b) L_j G_{j+b-t,b-t}. The history of a
// participation at d is G_{d+t,t} for t = b, …, 1, one line of a table of b lines: step j reads the line of d = j and adds an entry to
// every line j-t. Line j is then free for d = j-b.
//
// Range. |t_j| ≤ limit bounds L_j by 2^X, X = limit. Two examples participate at most twice in b steps, g ≤ 1, and staying silent costs q a
// step, so with Λ = b·log2(1/q) values of a row differ from its F by at most 2^Λ upward and 2^(2X+2Λ) downward, F over b rows by
// 2^(2X+Λ) upward and 2^(2Λ) downward, and G from H by 2^Λ. With a look every b rows all stay within top + 4X + 6Λ.
type pair struct {
	n, b       int
	p, q       float64
	a          []float64 // log2 of L at t = 0
	both       []float64 // p² e^{-s_j}
	one, stay  float64   // the other factors of F
	weights    *weights
	start      []float64 // stationary probabilities of the first waits
	limit      float64
	table      []Row // b lines of b+1 entries, entry t at t
	free       Row   // F_{j+1}
	log2       Row
	untilCheck int
}

// weights are p g(j,t) q^(2t-b) of every step, steps of equal weights sharing a row.
type weights struct {
	rows  [][]float64
	index []int32
}

func newWeights(o *law.Owner) *weights {
	w := &weights{index: make([]int32, o.Steps)}
	var last *float64 // identity of the row of overlaps that the last row of weights was made of
	logP, logQ := math.Log(o.Prob), math.Log1p(-o.Prob)
	for j := range w.index {
		overlaps := o.Overlaps(j)
		if j < o.MinSep || &overlaps[0] != last {
			row := make([]float64, o.MinSep)
			for t := 1; t < o.MinSep; t++ {
				log := logP + float64(2*t-o.MinSep)*logQ
				if t <= j { // an example that participated before the first step left nothing
					log -= overlaps[t]
				}
				row[t] = math.Exp(log)
			}
			w.rows = append(w.rows, row)
			last = &overlaps[0]
		}
		w.index[j] = int32(len(w.rows) - 1)
	}
	return w
}

// newPair returns nil when the law has no range in linear scale.
func newPair(o *law.Owner) Recursion {
	if o.Prob == 1 {
		return nil
	}
	r := &pair{n: o.Steps, b: o.MinSep, p: o.Prob, q: 1 - o.Prob, start: o.Waits()}
	shrink := -float64(r.b) * math.Log1p(-o.Prob) * math.Log2E
	r.limit = (maxRange - top - 6*shrink) / 4
	for _, s := range o.Norms() {
		r.a = append(r.a, -s/2*math.Log2E)
		r.both = append(r.both, r.p*r.p*math.Exp(-s))
		r.limit = min(r.limit, maxExponent-100-s/2*math.Log2E)
	}
	if r.limit < 20 {
		return nil
	}
	r.stay = r.q * r.q
	r.one = 2 * r.p * math.Pow(r.q, float64(r.b)) // H_{j+1,1} is q^(b-1) G
	r.weights = newWeights(o)
	return r.Fork()
}

func (r *pair) Fork() Recursion {
	fork := *r
	fork.table = make([]Row, r.b*(r.b+1))
	return &fork
}

func (r *pair) Limit() float64 { return r.limit }

func (r *pair) Reset() {
	for i := range r.table {
		v := math.Pow(r.q, float64(i%(r.b+1)-r.b))
		r.table[i] = Row{v, v, v, v, v, v, v, v}
	}
	r.free = Row{1, 1, 1, 1, 1, 1, 1, 1}
	r.log2 = Row{}
	r.untilCheck = r.b
}

func (r *pair) Rows(first int, t []Row, check bool) bool {
	if check && !within(t, r.limit) {
		return false
	}
	for i := len(t) - 1; i >= 0; i-- {
		j := first + i
		var jump Row
		for l := range jump {
			jump[l] = exp2(t[i][l] + r.a[j])
		}
		r.step(j, &jump)
		if r.untilCheck--; r.untilCheck == 0 {
			r.rescale()
			r.untilCheck = r.b
		}
	}
	return true
}

// step goes from row j+1 to row j; jump is L_j.
func (r *pair) step(j int, jump *Row) {
	b := r.b
	slot := j % b
	line := r.table[slot*(b+1) : (slot+1)*(b+1)]
	weights := r.weights.rows[r.weights.index[j]]
	// Line j-t is slot-t, or b more; its entry t is b rows of the table before that of t-1.
	at := slot*(b+1) - b
	for t := 1; t <= min(slot, b-1); t++ {
		advance((*[2]Row)(r.table[at:]), jump, &line[b-t], weights[t])
		at -= b
	}
	at += b * (b + 1)
	for t := slot + 1; t < b; t++ {
		advance((*[2]Row)(r.table[at:]), jump, &line[b-t], weights[t])
		at -= b
	}
	both := r.both[j]
	after, far := &line[1], &line[b]
	for l, v := range jump {
		r.free[l] = r.stay*r.free[l] + v*(r.one*after[l]+both*v*far[l])
	}
	line[b] = r.free
}

// advance adds an entry to a line: the entry before is at [1].
func advance(line *[2]Row, jump, other *Row, weight float64) {
	to, from := &line[0], &line[1]
	to[0] = from[0] + weight*jump[0]*other[0]
	to[1] = from[1] + weight*jump[1]*other[1]
	to[2] = from[2] + weight*jump[2]*other[2]
	to[3] = from[3] + weight*jump[3]*other[3]
	to[4] = from[4] + weight*jump[4]*other[4]
	to[5] = from[5] + weight*jump[5]*other[5]
	to[6] = from[6] + weight*jump[6]*other[6]
	to[7] = from[7] + weight*jump[7]*other[7]
}

// rescale divides the lanes that have left the range by a power of two.
func (r *pair) rescale() {
	for l, v := range r.free {
		if factor, log2 := backInRange(v); log2 != 0 {
			r.free[l] *= factor
			for i := range r.table {
				r.table[i][l] *= factor
			}
			r.log2[l] += log2
		}
	}
}

// LogRatio averages over two independent first waits: with r the shorter and d steps between them it is F_r or
// H_{r,b-d}, the longer wait being that of an example that participated before the first step.
func (r *pair) LogRatio(dst *Row) {
	var sum Row
	for i, at := range r.start {
		for d := 0; i+d < len(r.start); d++ {
			weight := at * at
			if d > 0 {
				weight = 2 * at * r.start[i+d] * math.Pow(r.q, float64(d))
			}
			t := r.b - d
			slot := ((i-t)%r.b + r.b) % r.b
			for l, v := range r.table[slot*(r.b+1)+t] {
				sum[l] += weight * v
			}
		}
	}
	for l, v := range sum {
		dst[l] = math.Log(v) + r.log2[l]*math.Ln2
	}
}

package kernel

import (
	"math"

	"minsep/accounting/montecarlo/internal/law"
)

// epochPair is law.EpochPair in linear scale (F4.7).
//
// Range. Every MinSep rows all that is kept is looked at, and lanes whose F has left [2^-top, 2^top] are divided. An entry of a line is
// kept for MinSep rows, so that each is seen; a batch with one outside of [2^-900, 2^900] is refused. Weights are at most 1, and |t| ≤ limit
// bounds L in both directions, so that what is lost below the normal numbers is small beside what is kept, as for epochs.
type epochPair struct {
	law     *law.EpochPair
	a       []float64 // log2 of L at t = 0
	both    []float64 // e^{-s_i}
	overlap *overlapWeights
	start   []float64 // probabilities of the first waits
	limit   float64

	table      []Row // b lines of b+1 entries, entry t at t
	free       Row   // F_{i+1}
	waits      Row   // W_{i+1}
	after      Row   // F at the first step of the next epoch
	log2       Row
	untilCheck int
}

// overlapWeights are e^{-⟨c_{i-t},c_i⟩/σ²} of every step, steps of equal weights sharing a row.
type overlapWeights struct {
	rows  [][]float64
	index []int32
}

func newOverlapWeights(l *law.EpochPair) *overlapWeights {
	w := &overlapWeights{index: make([]int32, l.Steps)}
	var last *float64 // identity of the row of overlaps that the last row of weights was made of
	for i := range w.index {
		overlaps := l.Overlaps(i)
		if i < l.MinSep || &overlaps[0] != last {
			row := make([]float64, l.MinSep)
			for t := 1; t < l.MinSep; t++ {
				row[t] = 1
				if t <= i { // an example that participated before the first step left nothing
					row[t] = math.Exp(-overlaps[t])
				}
			}
			w.rows = append(w.rows, row)
			last = &overlaps[0]
		}
		w.index[i] = int32(len(w.rows) - 1)
	}
	return w
}

// newEpochPair returns nil when the law has no range in linear scale.
func newEpochPair(l *law.EpochPair) Recursion {
	r := &epochPair{law: l}
	deepest := 0.0
	for _, s := range l.Norms() {
		r.a = append(r.a, -s/2*math.Log2E)
		r.both = append(r.both, math.Exp(-s))
		deepest = max(deepest, s*math.Log2E)
	}
	// L² e^{-s} and the overlaps, of at most s, stay in range with L.
	if r.limit = (maxExponent-100)/2 - deepest; r.limit < 20 {
		return nil
	}
	for _, wait := range l.LogWaits() {
		r.start = append(r.start, math.Exp(wait))
	}
	r.overlap = newOverlapWeights(l)
	return r.Fork()
}

func (r *epochPair) Fork() Recursion {
	fork := *r
	fork.table = make([]Row, r.law.MinSep*(r.law.MinSep+1))
	return &fork
}

func (r *epochPair) Limit() float64 { return r.limit }

func (r *epochPair) Reset() {
	one := Row{1, 1, 1, 1, 1, 1, 1, 1}
	for i := range r.table {
		r.table[i] = one
	}
	r.free, r.waits, r.after, r.log2 = one, one, one, Row{}
	r.untilCheck = r.law.MinSep
}

func (r *epochPair) Rows(first int, t []Row, check bool) bool {
	if check && !between(t, -r.limit, r.limit) {
		return false
	}
	for k := len(t) - 1; k >= 0; k-- {
		i := first + k
		var jump Row
		for l := range jump {
			jump[l] = exp2(t[k][l] + r.a[i])
		}
		r.step(i, &jump)
		if r.untilCheck--; r.untilCheck == 0 || i == 0 {
			if !r.settle() {
				return false
			}
			r.untilCheck = r.law.MinSep
		}
	}
	return true
}

// step goes from row i+1 to row i; jump is L_i.
func (r *epochPair) step(i int, jump *Row) {
	b, place := r.law.MinSep, i%r.law.Epoch
	if place == r.law.Epoch-1 {
		r.after, r.waits = r.free, r.free
	}
	take := r.law.Hazard(i)
	stay := 1 - take
	slot := i % b
	line := r.table[slot*(b+1) : (slot+1)*(b+1)]
	after := r.after
	ahead := func(t int) *Row {
		if k := r.law.Both(place, t); k > 0 {
			return &line[k]
		}
		return &after
	}
	var one Row // η L_i
	for l, v := range jump {
		one[l] = take * v
	}
	twice := r.both[i]
	far, near := ahead(0), &line[1]
	for l, v := range one {
		r.free[l] = stay*stay*r.free[l] + v*(2*stay*near[l]+twice*v*far[l])
	}
	if place >= b {
		far = ahead(b)
		for l, v := range one {
			r.waits[l] = stay*r.waits[l] + v*far[l]
		}
	}
	weights := r.overlap.rows[r.overlap.index[i]]
	// Line i-t is slot-t, or b more; its entry t is b rows of the table before that of t-1.
	at := slot*(b+1) - b
	for t := 1; t < b; t++ {
		if t == slot+1 {
			at += b * (b + 1)
		}
		blend((*[2]Row)(r.table[at:]), &one, ahead(t), stay, weights[t])
		at -= b
	}
	line[b] = r.free
	if place >= b {
		line[b] = r.waits
	}
}

// blend adds an entry to a line: the entry before is at [1].
func blend(line *[2]Row, one, other *Row, stay, weight float64) {
	to, from := &line[0], &line[1]
	to[0] = stay*from[0] + weight*one[0]*other[0]
	to[1] = stay*from[1] + weight*one[1]*other[1]
	to[2] = stay*from[2] + weight*one[2]*other[2]
	to[3] = stay*from[3] + weight*one[3]*other[3]
	to[4] = stay*from[4] + weight*one[4]*other[4]
	to[5] = stay*from[5] + weight*one[5]*other[5]
	to[6] = stay*from[6] + weight*one[6]*other[6]
	to[7] = stay*from[7] + weight*one[7]*other[7]
}

// settle divides the lanes whose F has left the range, and looks at all that is kept.
func (r *epochPair) settle() bool {
	for l, v := range r.free {
		if factor, log2 := backInRange(v); log2 != 0 {
			r.free[l] *= factor
			r.waits[l] *= factor
			r.after[l] *= factor
			for i := range r.table {
				r.table[i][l] *= factor
			}
			r.log2[l] += log2
		}
	}
	outside := outsideHeld(&r.free) | outsideHeld(&r.after) | outsideHeld(&r.waits)
	for i := range r.table {
		outside |= outsideHeld(&r.table[i])
	}
	return outside >= 0
}

// outsideHeld is negative if an entry of a row is not held: floats above 0 have the order of their bits.
func outsideHeld(row *Row) (sign int64) {
	least, most := int64(math.Float64bits(1/mostHeld)), int64(math.Float64bits(mostHeld))
	for _, v := range row {
		bits := int64(math.Float64bits(v))
		sign |= (bits - least) | (most - bits)
	}
	return sign
}

// LogRatio averages over two independent first waits, as pair does.
func (r *epochPair) LogRatio(dst *Row) {
	var sum Row
	b := r.law.MinSep
	for i, at := range r.start {
		for d := 0; i+d < len(r.start); d++ {
			weight := at * r.start[i+d]
			if d > 0 {
				weight *= 2
			}
			t := b - d
			slot := ((i-t)%b + b) % b
			for l, v := range r.table[slot*(b+1)+t] {
				sum[l] += weight * v
			}
		}
	}
	for l, v := range sum {
		dst[l] = math.Log(v) + r.log2[l]*math.Ln2
	}
}

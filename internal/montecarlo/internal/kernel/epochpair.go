package kernel

import (
	"math"

	"minsep/internal/montecarlo/internal/likelihood"
)

// epochPair is likelihood.EpochPair in linear scale (F4.7).
//
// Range. Every MinSep rows all kept values are looked at, and a lane is divided where its F has
// left [2^-top, 2^top]. An entry of a line is kept for MinSep rows, so that each is seen; a
// batch with one outside of [2^-900, 2^900] is refused. Weights are at most 1, and |t| ≤ limit
// bounds L in both directions, so that the loss below the normal numbers is small beside the
// rest, as for epochs.
type epochPair struct {
	ratio   *likelihood.EpochPair
	a       []float64 // log2 of L at t = 0
	both    []float64 // e^{-s_i}
	overlap *weights  // e^{-⟨c_{i-t},c_i⟩/σ²}
	start   []float64 // probabilities of the first waits
	limit   float64

	pairTable         // H_{i,t}
	free       Row    // F_{i+1}
	waits      Row    // W_{i+1}
	after      [1]Row // F at the first step of the next epoch
	log2       Row
	untilCheck int
}

// newEpochPair returns nil when the ratio has no range in linear scale.
func newEpochPair(l *likelihood.EpochPair) Recursion {
	r := &epochPair{ratio: l}
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
	r.overlap = newWeights(l.Steps, l.MinSep, l.Overlaps, func(int) float64 { return 0 })
	return r.Fork()
}

func (r *epochPair) Fork() Recursion {
	fork := *r
	fork.pairTable = newPairTable(r.ratio.MinSep, r.ratio.Steps)
	return &fork
}

func (r *epochPair) Limit() float64 { return r.limit }

func (r *epochPair) Reset() {
	one := Row{1, 1, 1, 1, 1, 1, 1, 1}
	for i := range r.table {
		r.table[i] = one
	}
	r.free, r.waits, r.after[0], r.log2 = one, one, one, Row{}
	r.untilCheck = r.ratio.MinSep
}

func (r *epochPair) Rows(first int, t []Row, check bool) bool {
	if check && !between(t, -r.limit, r.limit) {
		return false
	}
	return r.each(first, t, r.a, func(i int, jump *Row) bool {
		r.step(i, jump)
		if r.untilCheck--; r.untilCheck > 0 && i > 0 {
			return true
		}
		r.untilCheck = r.b
		return r.settle()
	})
}

// step goes from row i+1 to row i; jump is L_i.
func (r *epochPair) step(i int, jump *Row) {
	b, place := r.b, i%r.ratio.Epoch
	left := r.ratio.Epoch - place // steps to the next epoch
	if place == r.ratio.Epoch-1 {
		r.after[0], r.waits = r.free, r.free
	}
	take := r.ratio.Hazard(i)
	stay := 1 - take
	var one Row // η L_i
	for l, v := range jump {
		one[l] = take * v
	}
	// Where both examples are busy (likelihood.EpochPair.Both), the value is from the first step of
	// the next epoch. It is from b steps after the other participation instead if this step is later,
	// or if the other participation was in the epoch before.
	both, single := r.after[:], r.after[:]
	if b > left {
		both, single = r.line(i + b)[b:], r.line(i + left)[left:]
	}
	weights := r.overlap.rows[r.overlap.index[i]]
	now, before := max(1, b-left), min(b, place+1)
	r.diagonal(i, 1, min(now, before), weights, &one, stay)
	r.constant(i, now, before, weights, &one, single, stay)
	r.diagonal(i, before, b, weights, &one, stay)

	near, far, twice := &r.line(i + 1)[1], &both[0], r.both[i]
	for l, v := range one {
		r.free[l] = math.FMA(v, math.FMA(twice*v, far[l], 2*stay*near[l]), stay*stay*r.free[l])
	}
	last := &r.free
	if place >= b {
		for l, v := range one {
			r.waits[l] = math.FMA(v, single[0][l], stay*r.waits[l])
		}
		last = &r.waits
	}
	line := r.line(i)
	line[0], line[b] = *last, *last // the first is looked at with the others
}

// settle divides the lanes where F has left the range, and looks at all kept values.
func (r *epochPair) settle() bool {
	for l, v := range r.free {
		if factor, log2 := backInRange(v); log2 != 0 {
			r.free[l] *= factor
			r.waits[l] *= factor
			r.after[0][l] *= factor
			for i := range r.table {
				r.table[i][l] *= factor
			}
			r.log2[l] += log2
		}
	}
	return between([]Row{r.free, r.waits, r.after[0]}, 1/mostHeld, mostHeld) && between(r.table, 1/mostHeld, mostHeld)
}

func (r *epochPair) LogRatio(dst *Row) { r.logRatio(dst, r.start, 1, &r.log2) }

package tilt

import (
	"math"

	"minsep/accounting/montecarlo/internal/kernel"
)

// epochBlockWalker draws tuples by a table of F5.9, as blockWalker, with weights of at most 1. It
// is not safe for concurrent use.
type epochBlockWalker struct {
	t       *epochBlocks
	counts  []uint8
	recent  []int // participations of the last b steps, of step i at i mod b
	now     int   // i mod b
	place   int   // of step i in its epoch
	left    int   // copies not yet in this epoch, some of them blocked
	busy    int   // blocked by a participation in the epoch before
	chances []float64
}

func (s epochBlockSource) weightedWalker() func(hits []kernel.Hit, u *uniforms) ([]kernel.Hit, float64) {
	t := s.table
	w := &epochBlockWalker{t: t, counts: make([]uint8, t.parts), recent: make([]int, t.MinSep)}
	return w.walk
}

func (s epochBlockSource) walker() func(hits []kernel.Hit, u *uniforms) []kernel.Hit {
	panic("tilt: tuples of blocks have weights")
}

// at is the place of the count of participations at a step, of a virtual one before the run too.
func (w *epochBlockWalker) at(step int) int {
	b := w.t.MinSep
	return (step%b + b) % b
}

// start draws the waits ∝ π · V̂.
func (w *epochBlockWalker) start(u *uniforms) {
	t := w.t
	clear(w.recent)
	copy(w.counts, t.states(t.first).counts[pick(t.starts, u.float64())])
	w.left, w.busy, w.now, w.place = t.theta, 0, -1, -1
	for d, m := range w.counts {
		youngest, oldest := t.waits(d)
		for range m {
			w.recent[w.at(-youngest-int(u.float64()*float64(oldest-youngest+1)))]++
			w.busy++
		}
	}
}

// next goes to the next step and returns how many copies are free there.
func (w *epochBlockWalker) next() int {
	t := w.t
	if w.now++; w.now == t.MinSep {
		w.now = 0
	}
	again := w.recent[w.now] // of step - b
	switch w.place++; {
	case w.place == t.Epoch:
		w.place, w.left, w.busy = 0, t.theta, -again
		for _, m := range w.recent {
			w.busy += m
		}
	case w.place < t.MinSep:
		w.busy -= again
	}
	w.recent[w.now] = 0
	return w.left - w.busy
}

// walk sets hits[:0] to one tuple and returns its weight.
func (w *epochBlockWalker) walk(hits []kernel.Hit, u *uniforms) ([]kernel.Hit, float64) {
	t := w.t
	hits = hits[:0]
	w.start(u)
	weight, near := 1.0, 0 // hits before near do not overlap the step
	for block := t.first; block < len(t.place); block++ {
		layer := t.layers[block]
		begin, end := t.begins[block], t.begins[block+1]
		rank, c := t.rank(t.place[block], t.after(block, w.left), w.counts), 0
		now := layer.start[rank] // V̂ before the step
		width := int(layer.widths[rank])
		rows := layer.rows[layer.offsets[rank]:][:(end-begin)*width]
		for i := begin; i < end; i++ {
			for near < len(hits) && i-hits[near].Step >= t.overlaps.bands {
				near++
			}
			overlap := 0.0
			for _, h := range hits[near:] {
				overlap += float64(h.Times) * t.overlaps.between(h.Step, i)
			}
			next := rows[(i-begin)*width+c : (i-begin+1)*width]
			j, sum := w.step(i, overlap, next, u)
			weight *= sum / now
			if j > 0 {
				hits = append(hits, kernel.Hit{Step: i, Times: j})
				w.left -= j
				w.recent[w.now] = j
				c += j
			}
			now = next[j]
		}
		copy(w.counts[1:], w.counts)
		w.counts[0] = uint8(c)
	}
	return hits, weight
}

// step draws how many copies take part at a step, by their overlap with those before and V̂ after
// it, and returns the sum of the terms.
func (w *epochBlockWalker) step(i int, overlap float64, next []float64, u *uniforms) (j int, sum float64) {
	t := w.t
	terms := binomials(w.chances, w.next(), t.hazards[i])
	w.chances = terms
	for j := range terms {
		if j > 0 && overlap > 0 || j > 1 {
			terms[j] *= math.Exp(float64(j)*overlap + float64(j*(j-1)/2)*t.norms[i])
		}
		terms[j] *= next[j]
		sum += terms[j]
	}
	for x := sum * u.float64(); j < len(terms)-1; j++ {
		if x -= terms[j]; x < 0 {
			break
		}
	}
	return j, sum
}

// binomials appends Pr[Binom(m, h) = j], j = 0 … m, to dst[:0].
func binomials(dst []float64, m int, h float64) []float64 {
	dst = dst[:0]
	for range m + 1 {
		dst = append(dst, 0)
	}
	at, step, p, ratio := 0, 1, 1-h, h/(1-h)
	if h > .5 { // from the other end
		at, step, p, ratio = m, -1, h, (1-h)/h
	}
	x := power(p, m)
	for j := range m + 1 {
		dst[at] = x
		at += step
		x *= ratio * float64(m-j) / float64(j+1)
	}
	return dst
}

package tilt

import (
	"math"
	"slices"

	"minsep/accounting/montecarlo/internal/kernel"
	"minsep/accounting/montecarlo/internal/likelihood"
)

// weighted is a source whose tuples have weights: the values of a tuple are to be multiplied with
// its weight.
type weighted interface {
	weightedWalker() func(hits []kernel.Hit, u *uniforms) ([]kernel.Hit, float64)
}

// draw returns the walker of any source; tuples of exact tables have weight 1.
func draw(s source) func(hits []kernel.Hit, u *uniforms) ([]kernel.Hit, float64) {
	if w, ok := s.(weighted); ok {
		return w.weightedWalker()
	}
	walk := s.walker()
	return func(hits []kernel.Hit, u *uniforms) ([]kernel.Hit, float64) { return walk(hits, u), 1 }
}

// overlaps are the inner products of columns over σ²: rows[i][t] = ⟨c_i, c_{i+t}⟩/σ². Steps of
// equal products share a row.
type overlaps struct {
	rows  [][]float64
	bands int
}

func newOverlaps(c *likelihood.Columns, factor float64) *overlaps {
	o := &overlaps{rows: make([][]float64, c.Steps), bands: c.Bands}
	var last []float64
	c.Backward(func(i int, inner []float64) {
		if slices.Equal(inner, last) {
			o.rows[i] = o.rows[i+1]
			return
		}
		last = append(last[:0], inner...)
		o.rows[i] = slices.Clone(inner)
		for t := range inner {
			o.rows[i][t] *= factor
		}
	})
	return o
}

// between returns ⟨c_i, c_j⟩/σ².
func (o *overlaps) between(i, j int) float64 {
	if i > j {
		i, j = j, i
	}
	if row := o.rows[i]; j-i < len(row) {
		return row[j-i]
	}
	return 0
}

// blockWalker draws tuples by a table of F5.9: from the true state, j copies take part with
// probability ∝ term_j V̂(state after), and the tuple has
//
//	weight Π_i (Σ_j term_j V̂_{i+1}(S_j)) / V̂_i(S) ≤ 1
//
// for N̂ in place of N_θ. It is not safe for concurrent use.
type blockWalker struct {
	t      *blockTable
	counts []uint8
	due    []int       // copies that become free at each of the first b steps
	norm   float64     // ‖c‖²/σ² that coef is for
	coef   [][]float64 // as those of the table: coef[m], empty where it is not known yet
}

func (s blockSource) weightedWalker() func(hits []kernel.Hit, u *uniforms) ([]kernel.Hit, float64) {
	t := s.table
	w := &blockWalker{t: t, counts: make([]uint8, t.parts), due: make([]int, t.sep), norm: t.most, coef: make([][]float64, t.theta+1)}
	for m := range w.coef {
		w.coef[m] = slices.Clone(t.coef[m])
	}
	return w.walk
}

func (s blockSource) walker() func(hits []kernel.Hit, u *uniforms) []kernel.Hit {
	panic("tilt: tuples of blocks have weights")
}

// start draws the waits ∝ π · V̂ and returns how many copies wait, and V̂ before the first step.
func (w *blockWalker) start(u *uniforms) (waiting int) {
	t := w.t
	clear(w.counts)
	clear(w.due)
	if !t.warm {
		return 0
	}
	copy(w.counts, t.states[pick(t.starts, u.float64())].counts)
	for d, m := range w.counts {
		for range m {
			age := d*t.size + 1 + int(u.float64()*float64(t.waits(d)))
			w.due[t.sep-age]++
			waiting++
		}
	}
	return waiting
}

// walk sets hits[:0] to one tuple and returns its weight.
func (w *blockWalker) walk(hits []kernel.Hit, u *uniforms) ([]kernel.Hit, float64) {
	t := w.t
	hits = hits[:0]
	free := t.theta - w.start(u)
	weight := 1.0
	released, near := 0, 0 // hits before these are free again, and do not overlap the step
	now := 0.0             // V̂ before the step
	for block := range t.blocks {
		layer := t.layer(block)
		rank := t.rank(w.counts)
		state := &t.states[rank]
		if block > 0 {
			weight *= layer.start[rank] / layer.norm / now
		}
		now = layer.start[rank]
		width, c := state.free+1, 0
		for r := range layer.length {
			i := block*t.size + r
			if i < t.sep {
				free += w.due[i]
			}
			for ; released < len(hits) && hits[released].Step+t.sep <= i; released++ {
				free += hits[released].Times
			}
			for near < len(hits) && i-hits[near].Step >= t.overlaps.bands {
				near++
			}
			overlap := 0.0
			for _, h := range hits[near:] {
				overlap += float64(h.Times) * t.overlaps.between(h.Step, i)
			}
			x := 1.0
			if overlap > 0 {
				x = math.Exp(overlap)
			}
			next := layer.rows[state.offset+r*width+c : state.offset+(r+1)*width]
			coef := w.coefs(i, free)
			sum := polynomial(coef, next, x)
			weight *= sum / now
			j := choosePower(coef, next, x, sum*u.float64())
			if j > 0 {
				hits = append(hits, kernel.Hit{Step: i, Times: j})
				free -= j
				c += j
			}
			now = next[j]
		}
		copy(w.counts[1:], w.counts)
		w.counts[0] = uint8(c)
	}
	return hits, weight
}

// choosePower returns the j at which the partial sums of coef[j] x^j value[j] exceed u.
func choosePower(coef, value []float64, x, u float64) int {
	power := 1.0
	for j := range len(coef) - 1 {
		if u -= coef[j] * power * value[j]; u < 0 {
			return j
		}
		power *= x
	}
	return len(coef) - 1
}

// coefs are Pr[Binom(m,p) = j] e^{j(j-1)/2 ‖c_i‖²/σ²}. Nearly all columns have one norm, so those
// of the last norm are kept.
func (w *blockWalker) coefs(i, m int) []float64 {
	t := w.t
	if t.norms[i] != w.norm {
		w.norm = t.norms[i]
		for m := range w.coef {
			w.coef[m] = w.coef[m][:0]
		}
	}
	if len(w.coef[m]) == 0 {
		for j, most := range t.coef[m] {
			w.coef[m] = append(w.coef[m], most*math.Exp(float64(j*(j-1)/2)*(w.norm-t.most)))
		}
	}
	return w.coef[m]
}

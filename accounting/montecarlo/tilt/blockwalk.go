package tilt

import (
	"math"
	"slices"

	"minsep/accounting/montecarlo/internal/kernel"
	"minsep/accounting/montecarlo/internal/likelihood"
)

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

// blockWalker draws tuples by a table of F5.9. From the true state no replica takes part up to a
// step with probability Π (1-η) times V̂ at the step over V̂ before. One uniform number finds the
// step of the next participation. There replicas take part with probabilities ∝ their terms in the
// recursion. The sum of these terms is P, in place of E = V̂ - (1-η) V̂ after. The tuple has
//
//	weight Π P/E ≤ 1
//
// over the steps with participations, for N̂ in place of N_θ. It is not safe for concurrent use.
type blockWalker struct {
	t     *blocks
	free  []int   // replicas of each sort
	due   [][]int // of every step: the sorts of those who become free
	queue []int   // the steps with any, the last first
	hits  []kernel.Hit

	at cursor // the block of the step

	parts []walkSort // of the state that may act in the block
	share []float64  // by number of participants: the factor of their overlaps, also with one another
	terms []float64  // of every choice, the last sort first

	counts cellCounts
}

// cursor is a state before a block, and the index took, in the rows of the state, of the
// participations in the block so far.
type cursor struct{ block, state, took int }

// walkSort is a sort of replicas that may act in a block.
type walkSort struct {
	sort     int
	stride   int // of a participation in rows
	binomial []float64
}

func newBlockWalker(t *blocks) *blockWalker {
	return &blockWalker{t: t, due: make([][]int, t.steps+1), free: make([]int, len(t.sorts)), share: make([]float64, t.theta+1)}
}

// walk sets hits[:0] to one tuple and returns its weight.
func (w *blockWalker) walk(hits []kernel.Hit, u *uniforms) ([]kernel.Hit, float64) {
	t := w.t
	w.hits = hits[:0]
	w.start(u)
	weight, quiet, until := 1.0, 1.0, u.float64()
	for i := 0; i < t.steps; {
		if i == t.begins[w.at.block+1] {
			w.at = t.next(w.at)
		}
		w.release(i)
		next := w.nextDue(t.steps)
		if w.nobody() {
			weight *= w.pass(i, next)
			i = next
			continue
		}
		at, all := w.last(i, next, quiet, until)
		if i = at; i == next {
			quiet = all
			continue
		}
		weight *= w.happen(i, u)
		if weight == 0 {
			return w.hits[:0], 0
		}
		quiet, until = 1, u.float64()
		i++
	}
	return w.hits, weight
}

// start draws the labels before the first step ∝ π · V̂.
func (w *blockWalker) start(u *uniforms) {
	t := w.t
	clear(w.free)
	for _, i := range w.queue {
		w.due[i] = w.due[i][:0]
	}
	w.queue, w.at = w.queue[:0], cursor{}
	if len(t.starts) > 1 {
		w.at.state = pick(t.starts, u.float64())
	}
	cells, times := t.shapes[0].states.of(w.at.state)
	for n, z := range cells {
		for range times[n] {
			w.wait(t.startOf(int(z), u), 0)
		}
	}
}

// startOf draws a start of a cell.
func (t *blocks) startOf(z int, u *uniforms) (label int) {
	list := t.first[z]
	if len(list) == 1 {
		return list[0].Label
	}
	total := 0.0
	for _, x := range list {
		total += x.Prob
	}
	at := u.float64() * total
	for _, x := range list {
		label = x.Label
		if at -= x.Prob; at < 0 {
			break
		}
	}
	return label
}

// wait queues a replica, which has the label before the step, at the step where it becomes free.
func (w *blockWalker) wait(label, step int) {
	at, sort := w.t.freeFrom(label, step)
	if at >= w.t.steps || sort < 0 {
		return
	}
	if w.due[at] = append(w.due[at], sort); len(w.due[at]) == 1 {
		n, _ := slices.BinarySearchFunc(w.queue, at, func(a, b int) int { return b - a })
		w.queue = slices.Insert(w.queue, n, at)
	}
}

// release frees those who are due by a step.
func (w *blockWalker) release(i int) {
	for n := len(w.queue) - 1; n >= 0 && w.queue[n] <= i; n-- {
		for _, sort := range w.due[w.queue[n]] {
			w.free[sort]++
		}
		w.due[w.queue[n]] = w.due[w.queue[n]][:0]
		w.queue = w.queue[:n]
	}
}

// nextDue is the next step at which a replica becomes free, or the end.
func (w *blockWalker) nextDue(end int) int {
	if n := len(w.queue); n > 0 {
		return min(end, w.queue[n-1])
	}
	return end
}

// nobody says that no replica is free.
func (w *blockWalker) nobody() bool {
	return slices.Max(w.free) == 0
}

// next is the block after one.
func (t *blocks) next(c cursor) cursor {
	s := t.shapes[c.block]
	return cursor{c.block + 1, int(s.after[int(s.place[c.state])+c.took]), 0}
}

// skip is the cursor before a later block, if no replica takes part until then.
func (w *blockWalker) skip(c cursor, block int) cursor {
	t := w.t
	if c.took > 0 {
		c = t.next(c)
	}
	for ; c.block < block && block-c.block < 3; c = t.next(c) {
	}
	if c.block == block {
		return c
	}
	here, there := t.shapes[c.block], t.shapes[block]
	w.counts.reset(len(there.cells))
	cells, times := here.states.of(c.state)
	for n, z := range cells {
		w.counts.add(t.cellOf(there.cells, &here.cells[z], t.begins[c.block], t.begins[block]), int(times[n]))
	}
	return cursor{block, w.counts.rank(t.binomial), 0}
}

// cellOf returns the cell that holds, before step later, the replicas that a cell held before
// step begin.
func (t *blocks) cellOf(cells []cell, from *cell, begin, later int) int {
	z := len(cells) - 1
	if from.from < from.to {
		for at := from.from + begin - later; z >= 0 && cells[z].from < cells[z].to; z-- {
			if c := &cells[z]; c.origin == from.origin && c.from <= at && at < c.to {
				return z
			}
		}
	}
	for label := t.law.Pass(from.labels[0], begin, later); z > 0 && (cells[z].from < cells[z].to || cells[z].labels[0] != label); z-- {
	}
	return z
}

// value is V̂ before a step of a cursor's block or its end, in units of e^scale.
func (t *blocks) value(c cursor, i int) (v, scale float64) {
	s := t.shapes[c.block]
	if i == t.begins[c.block+1] {
		if i == t.steps {
			return 1, 0
		}
		c = t.next(c)
		return t.layers[c.block].start[c.state], t.scale[c.block]
	}
	if i == t.begins[c.block] || s.row[c.state] < 0 {
		return t.layers[c.block].start[c.state], t.scale[c.block]
	}
	return t.rows(c, i-1)[c.took], t.scale[c.block]
}

// rows is the row of V̂ after a step of a block.
func (t *blocks) rows(c cursor, i int) []float64 {
	s := t.shapes[c.block]
	width := int(s.place[c.state+1] - s.place[c.state])
	return t.layers[c.block].rows[int(s.row[c.state])*s.length+(i-t.begins[c.block])*width:][:width]
}

// strides is how many blocks are passed one by one before walks leap over them.
const strides = 8

// last moves the cursor to the step of the next participation from i on, or to next where there is
// none before next. It returns the step and, for next, the probability of no participation since
// the last one. No replica becomes free before next.
func (w *blockWalker) last(i, next int, quiet, until float64) (int, float64) {
	t := w.t
	now, unit := t.value(w.at, i)
	alive := func(c cursor, k int) float64 {
		to, scale := t.value(c, k)
		if scale != unit {
			to *= math.Exp(scale - unit)
		}
		return quiet * w.stay(i, k) * to / now
	}
	for n, leap := 0, 2; ; n++ {
		from, end := max(i, t.begins[w.at.block]), t.begins[w.at.block+1]
		all := alive(w.at, min(next, end))
		if all < until {
			return lastAlive(from, min(next, end), func(k int) bool { return k == i || alive(w.at, k) >= until }), 0
		}
		if next <= end {
			return next, all
		}
		if n < strides {
			w.at = t.next(w.at)
			continue
		}
		last := t.blockOf[next-1]
		block := min(w.at.block+leap, last)
		if c := w.skip(w.at, block); alive(c, t.begins[block]) >= until {
			w.at, leap = c, 2*leap
			continue
		}
		block = lastAlive(w.at.block+1, block, func(k int) bool { return alive(w.skip(w.at, k), t.begins[k]) >= until })
		w.at, n = w.skip(w.at, block), 0
	}
}

// pass moves the cursor to step next, with no free replica before it, and returns V̂ there over V̂
// at step i.
func (w *blockWalker) pass(i, next int) float64 {
	t := w.t
	now, unit := t.value(w.at, i)
	if block := t.blockOf[next-1]; block > w.at.block {
		w.at = w.skip(w.at, block)
	}
	to, scale := t.value(w.at, next)
	return to * math.Exp(scale-unit) / now
}

// stay is the probability that no free replica takes part from one step up to a later one, whatever
// the overlaps.
func (w *blockWalker) stay(from, to int) float64 {
	product := 1.0
	for sort, free := range w.free {
		if free > 0 {
			product *= power(w.t.law.Quiet(w.t.sorts[sort][0], from, to), free)
		}
	}
	return product
}

// happen draws how many replicas of each sort take part at a step, at least one in all, and returns
// the factor of the step in the weight of the tuple.
func (w *blockWalker) happen(i int, u *uniforms) (factor float64) {
	t := w.t
	s := t.shapes[w.at.block]
	if s.row[w.at.state] < 0 {
		return 0
	}
	w.enter()
	now, unit := t.value(w.at, i)
	row := t.rows(w.at, i)
	after, scale := t.value(w.at, i+1)
	missing, sum := now-w.stay(i, i+1)*after*math.Exp(scale-unit), 0.0
	overlap := 0.0
	for n := len(w.hits) - 1; n >= 0 && i-w.hits[n].Step < t.overlaps.bands; n-- {
		overlap += float64(w.hits[n].Times) * t.overlaps.between(w.hits[n].Step, i)
	}
	w.prepare(i, math.Exp(overlap))
	w.terms = w.terms[:0]
	w.list(0, 0, 1, row[w.at.took:])
	for _, term := range w.terms[1:] {
		sum += term
	}
	if !(missing > 0 && sum > 0) {
		return 0
	}
	at := 0
	for left := sum * u.float64(); at == 0 || left >= 0 && at < len(w.terms)-1; {
		at++
		left -= w.terms[at]
	}
	factor = sum / missing
	hit := kernel.Hit{Step: i}
	for n := len(w.parts) - 1; n >= 0; n-- {
		p := &w.parts[n]
		j := at % len(p.binomial)
		at /= len(p.binomial)
		w.at.took += j * p.stride
		hit.Times += j
		w.leave(p, i, j)
	}
	w.hits = append(w.hits, hit)
	if i+1 == t.begins[w.at.block+1] { // the next layer may have less for the end of this one
		after, scale = t.value(w.at, i+1)
		factor *= after * math.Exp(scale-unit) / row[w.at.took]
	}
	return factor
}

// enter sets the sorts that may act in the block.
func (w *blockWalker) enter() {
	s := w.t.shapes[w.at.block]
	w.parts = w.parts[:0]
	s.acting(w.at.state, func(k, count, stride int) {
		if count > 0 {
			w.parts = append(w.parts, walkSort{sort: s.sorts[k], stride: stride})
		}
	})
}

// prepare sets the factors of a step's terms.
func (w *blockWalker) prepare(i int, x float64) {
	product := 1.0
	for j := range w.share {
		w.share[j] = product * math.Exp(float64(j*(j-1)/2)*w.t.norms[i])
		product *= x
	}
	for n := range w.parts {
		p := &w.parts[n]
		p.binomial = w.t.chances[i][p.sort].binomial[w.free[p.sort]]
	}
}

// list appends the terms of all choices of the sorts from n on, after j participations of the sorts
// before.
func (w *blockWalker) list(n, j int, prob float64, next []float64) {
	p := &w.parts[n]
	for m, x := range p.binomial {
		if n < len(w.parts)-1 {
			w.list(n+1, j+m, prob*x, next[m*p.stride:])
			continue
		}
		w.terms = append(w.terms, prob*x*w.share[j+m]*next[m*p.stride])
	}
}

// leave lets a number of replicas of a sort take part at a step.
func (w *blockWalker) leave(p *walkSort, i, taking int) {
	kind, _ := w.t.law.Kind(i + 1)
	entered := w.t.law.Enter(w.t.sorts[p.sort][0], kind, true)
	w.free[p.sort] -= taking
	for range taking {
		w.wait(entered, i+1)
	}
}

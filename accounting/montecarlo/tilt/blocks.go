package tilt

import (
	"fmt"
	"math"
	"slices"

	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/internal/law"
	"minsep/accounting/montecarlo/internal/likelihood"
)

// blocks bounds the V of F5.3 from above, for any law, where exact tables are too large (F5.9).
// Steps are taken in blocks. A state before a block is the number of the θ replicas in each [cell],
// a set of labels that the table does not tell apart. Within a block a state also has, for each
// sort of free labels, the number of replicas that took part in the block so far.
//
// V̂ of a state is a sum over the choices at a step: the largest one for any numbers of replicas
// that may be free. Replicas of a cell that are not free overlap as if they had the least age in
// the cell.
//
// Any V̂ that is at least the recursion F5.3 applied to V̂ gives tuples with weights of at most
// N̂ = V̂ at the start (see [blockWalker]).
type blocks struct {
	law    law.Law
	steps  int
	theta  int
	begins []int // first step of each block, and the number of steps
	cut
	reach []float64 // ρ(t): the largest overlap over σ² of columns at least t steps apart
	norms []float64 // ‖c_i‖²/σ²
	most  float64   // the largest of them

	sortOf   []int   // of each free label, -1 of others
	sorts    [][]int // the free labels of each sort
	origins  []int   // of each sort, see [cell]
	binomial multisets
	lists    map[int]*stateList // by the number of cells
	shapes   []*shape           // of every block
	blockOf  []int              // of every step, and of the end
	chances  [][]*chances       // of every step and sort

	layers []*blockLayer // of every block, when the table is kept
	scale  []float64     // ln of the units of every block's layer
	first  [][]law.Start // of each cell before the first block
	starts []float64     // partial sums of π · V̂ over the states before the first step, for drawing

	overlaps *overlaps // of the columns, when the table is kept

	lnN float64
}

// cut says how a run is cut into blocks.
type cut struct {
	size     int  // of a block at least, in steps
	every    int  // steps after which the law is the same again and the cut begins anew; 0 for never
	steady   bool // the law is the same at all steps
	maxBytes int  // of the layers that are kept
}

// blockLayer is V̂ within a block. start has it before the first step of the block, and rows before
// each later step and after the last one. norm is the least entry of start or, where one layer
// serves many blocks, the factor from one to the next: the layer before is in units of it.
type blockLayer struct {
	start []float64
	norm  float64
	rows  []float64
}

// chances are the probabilities of participations of the free replicas of a sort at a step.
type chances struct {
	norm     float64     // ‖c‖²/σ²
	self     []float64   // e^{j(j-1)/2 ‖c‖²/σ²}
	binomial [][]float64 // [m][j] = Pr[Binom(m, η) = j]
	weighted [][]float64 // and self[j] times it
}

// begin returns the first step of each block of the run, and the number of steps as the last entry.
func (c cut) begin(steps int) (begins []int) {
	if c.every == 0 {
		for i := 0; i < steps; i += c.size {
			begins = append(begins, i)
		}
		return append(begins, steps)
	}
	count := max(1, c.every/c.size)
	for first := 0; first < steps; first += c.every {
		for q := range count {
			if begin := first + int(int64(c.every)*int64(q)/int64(count)); begin < steps {
				begins = append(begins, begin)
			}
		}
	}
	return append(begins, steps)
}

// before returns the range of steps, from ≤ i < to, of the block that a step before the run would
// be in. Such steps are negative.
func (c cut) before(step int) (from, to int) {
	if c.every == 0 {
		from = step - ((step%c.size)+c.size)%c.size
		return from, from + c.size
	}
	period := max(c.every, c.size)
	periods := (period - 1 - step) / period
	begins := c.begin(periods * period)
	k, _ := slices.BinarySearch(begins, step+periods*period+1)
	return begins[k-1] - periods*period, begins[k] - periods*period
}

// newBlocks makes the table of an order; with keep tuples can be drawn from it, else only lnN is
// valid. It returns an error once lnN is sure to exceed most, which is soon where blocks are too
// coarse for the order.
func newBlocks(l law.Law, theta int, c cut, columns *likelihood.Columns, factor float64, keep bool, most float64, watch watcher) (*blocks, error) {
	steps := columns.Steps
	t := &blocks{law: l, steps: steps, theta: theta, cut: c, begins: c.begin(steps), lists: map[int]*stateList{}}
	if theta > maxBlockOrder {
		return nil, fmt.Errorf("%w: order %d in blocks is above %d", ErrTable, theta, maxBlockOrder)
	}
	t.norms = columns.SquaredNorms(factor)
	t.most, t.reach = slices.Max(t.norms), reachOf(columns, factor)
	if err := t.sortLabels(); err != nil {
		return nil, err
	}
	t.prepare()
	var err error
	if t.shapes, err = t.shapesOf(func([]*shape) error { return watch.tell(0) }); err != nil {
		return nil, err
	}
	if err := t.fill(keep, most, watch); err != nil {
		return nil, err
	}
	if math.IsNaN(t.lnN) || math.IsInf(t.lnN, 0) {
		return nil, fmt.Errorf("%w: order %d: the sums leave the range of float64", ErrTable, theta)
	}
	if keep {
		t.overlaps = newOverlaps(columns, factor)
		t.measure()
	}
	return t, nil
}

// reachOf is ρ(t), t = 0 … bands: the largest overlap over σ² of any two columns at least t apart.
func reachOf(c *likelihood.Columns, factor float64) []float64 {
	reach := make([]float64, c.Bands+1)
	c.Backward(func(_ int, inner []float64) {
		for d := range inner {
			reach[d] = max(reach[d], factor*inner[d])
		}
	})
	for d := c.Bands - 1; d >= 0; d-- {
		reach[d] = max(reach[d], reach[d+1])
	}
	return reach
}

// prepare sets the chances of all steps. Steps with equal hazards and norms share them.
func (t *blocks) prepare() {
	t.chances = make([][]*chances, t.steps)
	type key struct{ hazard, norm float64 }
	known := map[key]*chances{}
	for i := range t.chances {
		norm := t.most
		if !t.steady {
			norm = t.norms[i]
		}
		for _, labels := range t.sorts {
			at := key{t.law.Hazard(labels[0], i), norm}
			if known[at] == nil {
				known[at] = t.newChances(at.hazard, norm)
			}
			t.chances[i] = append(t.chances[i], known[at])
		}
	}
}

func (t *blocks) newChances(hazard, norm float64) *chances {
	c := &chances{}
	for j := range t.theta + 1 {
		c.self = append(c.self, math.Exp(float64(j*(j-1)/2)*norm))
	}
	for m := range t.theta + 1 {
		row := binomials(nil, m, hazard)
		c.binomial, row = append(c.binomial, row), slices.Clone(row)
		for j := range row {
			row[j] *= c.self[j]
		}
		c.weighted = append(c.weighted, row)
	}
	c.norm = norm
	return c
}

// fill makes the layers from the last block to the first.
func (t *blocks) fill(keep bool, most float64, watch watcher) error {
	t.layers = make([]*blockLayer, len(t.shapes))
	after := []float64{1}
	var scratch []float64
	kept := 0
	for block := len(t.shapes) - 1; block >= 0; block-- {
		if err := watch.tell(0); err != nil {
			return err
		}
		s := t.shapes[block]
		if block == len(t.shapes)-1 {
			after = make([]float64, int(t.count(len(s.next))+.5))
			for i := range after {
				after[i] = 1
			}
		}
		entries := s.length * s.size
		if kept += 8 * (entries + len(s.row)); kept > t.maxBytes {
			return fmt.Errorf("%w: order %d in blocks of %d steps takes more than %.3g MB", ErrTable, t.theta, t.size, float64(t.maxBytes)/(1<<20))
		}
		layer := func() *blockLayer {
			if keep {
				return &blockLayer{start: make([]float64, len(s.row)), rows: make([]float64, entries)}
			}
			scratch = slices.Grow(scratch[:0], entries)[:entries]
			return &blockLayer{start: make([]float64, len(s.row)), rows: scratch}
		}
		here := layer()
		t.build(here, s, t.begins[block], after)
		here.norm = slices.Min(here.start)
		if t.lnN += math.Log(here.norm); !(t.lnN <= most) {
			return fmt.Errorf("%w: order %d in blocks of %d steps: the moment is above e^%.4g", ErrTable, t.theta, t.size, most)
		}
		before := make([]float64, len(here.start))
		for i, v := range here.start {
			before[i] = v / here.norm
		}
		t.layers[block] = here
		if alike := t.alike(block); alike > 0 && spreadOf(before, after)*float64(alike) < steadyLoss {
			steady := layer()
			t.build(steady, s, t.begins[block-1], before)
			for i, v := range steady.start {
				steady.norm = max(steady.norm, v/before[i])
			}
			t.lnN += float64(alike) * math.Log(steady.norm)
			for ; alike > 0; alike-- {
				block--
				t.layers[block] = steady
			}
		}
		after = before
	}
	t.begin(after)
	return nil
}

// measure sets scale and blockOf, by which walks leap over blocks.
func (t *blocks) measure() {
	t.scale = make([]float64, len(t.layers))
	for b := len(t.layers) - 2; b >= 0; b-- {
		t.scale[b] = t.scale[b+1] + math.Log(t.layers[b+1].norm)
	}
	for b := range t.shapes {
		for range t.begins[b+1] - t.begins[b] {
			t.blockOf = append(t.blockOf, b)
		}
	}
	t.blockOf = append(t.blockOf, len(t.shapes))
}

// alike is the number of successive blocks just before a block that have its shape, if the law is
// steady and the next block has this shape too; else 0.
func (t *blocks) alike(block int) (count int) {
	if !t.steady || block == len(t.shapes)-1 || t.shapes[block+1] != t.shapes[block] {
		return 0
	}
	for count < block && t.shapes[block-1-count] == t.shapes[block] {
		count++
	}
	return count
}

// spreadOf is the largest |ln(a/b)| of two values of one state.
func spreadOf(a, b []float64) (spread float64) {
	for i, v := range a {
		spread = max(spread, math.Abs(math.Log(v/b[i])))
	}
	return spread
}

// begin sums V̂ over the starts.
func (t *blocks) begin(before []float64) {
	s := t.shapes[0]
	t.starts = make([]float64, len(s.row))
	sum := 0.0
	for state := range t.starts {
		cells, times := s.states.of(state)
		prob, rest := 1.0, t.theta
		for n, z := range cells {
			each := 0.0
			for _, x := range t.first[z] {
				each += x.Prob
			}
			prob *= choose(rest, int(times[n])) * power(each, int(times[n]))
			rest -= int(times[n])
		}
		sum += prob * before[state]
		t.starts[state] = sum
	}
	t.lnN += math.Log(sum)
}

// roundingBound bounds the relative error of N̂ and of weights: every entry is a sum of at most as
// many products as there are sets of free replicas of two sorts and more, or θ+1.
func (t *blocks) roundingBound() float64 {
	terms := 4*float64(t.theta) + 16
	if len(t.sorts) > 1 {
		terms += 8 * float64(t.theta)
	}
	return float64(t.steps) * terms * 0x1p-53 * (4 + t.most*float64(t.theta))
}

// outline are the shapes of blocks without their states, which tell the work of any order.
type outline []*shape

// newOutline returns an error where a table of an order, and so of every higher order, takes more
// than most multiplications. It also does where the outline itself takes too long.
func newOutline(l law.Law, steps int, c cut, order int, most float64, watch watcher) (outline, error) {
	t := &blocks{law: l, steps: steps, cut: c, begins: c.begin(steps), lists: map[int]*stateList{}, reach: []float64{0}}
	if visits := float64(l.Labels()) * float64(c.size+len(t.begins)); visits > maxVisits {
		return nil, fmt.Errorf("%w: %d labels in blocks of %d steps", ErrTable, l.Labels(), c.size)
	}
	if err := t.sortLabels(); err != nil {
		return nil, err
	}
	work := outlineWork{order: order, steady: c.steady}
	return t.shapesOf(func(so []*shape) error {
		if work.add(so); work.sum > most {
			return fmt.Errorf("%w: order %d in blocks of %d steps is too much work", ErrTable, order, c.size)
		}
		return watch.tell(0)
	})
}

// work is about how many multiplications a table of an order takes.
func (o outline) work(theta int, steady bool) float64 {
	work := outlineWork{order: theta, steady: steady}
	for block := range o {
		work.add(o[:block+1])
	}
	return work.sum
}

// outlineWork sums the approximate numbers of multiplications that the blocks so far of a table of
// an order take.
type outlineWork struct {
	order  int
	steady bool
	run    int // blocks before the last that are alike
	sum    float64
}

// add adds the last block. Of successive blocks with one shape in a steady law, about 8 for each
// cell are counted: after these their layers are alike.
func (w *outlineWork) add(so []*shape) {
	last := len(so) - 1
	s := so[last]
	if w.run++; last == 0 || so[last-1] != s {
		w.run = 0
	}
	cells := len(s.cells)
	if w.steady && w.run > 8*cells {
		return
	}
	acting := 0
	for _, k := range s.actor {
		if k >= 0 {
			acting++
		}
	}
	each := float64(w.order) * float64(acting) / float64(cells)
	w.sum += float64(s.length) * countStates(cells, w.order+1) * (6 + (1+each)*(1+each/2))
}

func newBlockSource(f lawFamily, s montecarlo.Spec, columns *likelihood.Columns, order, size int, keep bool, most float64, watch watcher) (*source, error) {
	if size < 1 || size > s.MinSep {
		return nil, fmt.Errorf("%w: blocks of %d steps at min-sep %d", ErrTable, size, s.MinSep)
	}
	t, err := newBlocks(f.law, order, f.cut(size), columns, s.Factor(), keep, most, watch)
	if err != nil {
		return nil, err
	}
	return t.source(), nil
}

// source bounds the error of a walk: in each step, the terms of the step are rounded, and so is the
// sum of the units by which the walk leaps over blocks.
func (t *blocks) source() *source {
	return &source{lnN: t.lnN, raised: max(inflation, 2*t.roundingBound()),
		walkError: float64(t.steps) * (float64(t.theta+4)*4e-15 + math.Abs(t.lnN)*0x1p-52), walker: func() walk { return newBlockWalker(t).walk }}
}

package tilt

import (
	"fmt"
	"math"
	"slices"

	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/internal/likelihood"
)

// epochBlocks bounds the V of F5.5 from above in blocks of steps (F5.9), for orders whose exact
// tables are too large. Blocks begin anew with every epoch. A state before a block is how many
// copies took part in each of the last `parts` blocks, m_1 … m_parts, the latest first, which hold
// the last min-sep - 1 steps, and how many are left: not yet in this epoch. Within a block it has
// also c, how many took part in it so far. Before the first `parts` blocks of an epoch some counts
// are of the epoch before, and what is left follows from those of this one.
//
// All copies of a block count as having the least age that the block allows, and those of the epoch
// before as blocked only as long as every age in their block is below min-sep.
type epochBlocks struct {
	likelihood.Epochs
	theta, parts int
	begins       []int     // first step of each block, of those of an epoch before the run too, and the number of steps
	place        []int     // of each block, how many blocks of its epoch are before it
	first        int       // the block that begins the run
	reach        []float64 // ρ(t): the largest overlap over σ² of columns at least t steps apart
	norms        []float64 // ‖c_i‖²/σ²
	most         float64   // the largest of them
	hazards      []float64
	binomial     [][]int // C(i, j) for ranks of states
	lists        []epochStates
	pairs        []float64 // e^{j(j-1)/2 most}
	choose       [][]float64

	layers   []*epochLayer
	starts   []float64 // partial sums of π · V̂ over the states before the first step, for drawing
	overlaps *overlaps // of the columns, when the table is kept

	lnN float64
}

// epochStates are the states before a block in the order of their ranks.
type epochStates struct {
	left   []uint8
	counts [][]uint8
}

// epochLayer is V̂ within a block, in units of e^scale: rows[offset+(r-1)·width+c] before step r ≥
// 1 of the block and after its last; start before step 0, where c is 0.
type epochLayer struct {
	start   []float64
	scale   float64
	offsets []int32
	widths  []uint8
	rows    []float64
}

// blockParts is how many blocks of a length, or longer ones, hold the last sep-1 steps.
func blockParts(sep, size int) int { return max(1, (sep-2+size)/size) }

// newEpochBlocks makes the table of an order; with keep tuples can be drawn from it, else only lnN
// is good. An epoch is cut into blocks of at least size steps. It gives up where lnN is sure to
// exceed most.
func newEpochBlocks(e likelihood.Epochs, theta, size int, columns *likelihood.Columns, factor float64, keep bool, most float64) (*epochBlocks, error) {
	t := &epochBlocks{Epochs: e, theta: theta, parts: blockParts(e.MinSep, size)}
	count := e.Epoch / size
	if theta > maxBlockOrder || t.parts > maxBlockParts || count < t.parts || epochBlockEntries(theta, t.parts, e.Steps)*8 > maxBlockBytes {
		return nil, fmt.Errorf("%w: order %d in blocks of %d steps at min-sep %d and %d steps an epoch", ErrTable, theta, size, e.MinSep, e.Epoch)
	}
	for epoch := -e.Epoch; epoch < e.Steps; epoch += e.Epoch {
		for q := range count {
			if begin := epoch + int(int64(e.Epoch)*int64(q)/int64(count)); begin < e.Steps {
				t.begins, t.place = append(t.begins, begin), append(t.place, q)
			}
		}
	}
	t.begins, t.first = append(t.begins, e.Steps), count
	t.norms = columns.SquaredNorms(factor)
	for i := range e.Steps {
		t.hazards = append(t.hazards, e.Hazard(i))
	}
	t.most, t.reach = slices.Max(t.norms), reachOf(columns, factor, e.MinSep)
	t.count()
	if err := t.fill(keep, most); err != nil {
		return nil, err
	}
	if math.IsNaN(t.lnN) || math.IsInf(t.lnN, 0) {
		return nil, fmt.Errorf("%w: order %d: the sums leave the range of float64", ErrTable, theta)
	}
	if keep {
		t.overlaps = newOverlaps(columns, factor)
	}
	return t, nil
}

// maxBlockParts bounds the entries of a state.
const maxBlockParts = 12

// reachOf is ρ(t), t = 0 … sep: the largest overlap over σ² of any two columns at least t apart,
// and 0 at sep.
func reachOf(c *likelihood.Columns, factor float64, sep int) []float64 {
	reach := make([]float64, sep+1)
	c.Backward(func(_ int, inner []float64) {
		for d := range min(len(inner), sep) {
			reach[d] = max(reach[d], factor*inner[d])
		}
	})
	for d := sep - 1; d >= 0; d-- {
		reach[d] = max(reach[d], reach[d+1])
	}
	return reach
}

// count sets the numbers that states and terms are made of.
func (t *epochBlocks) count() {
	t.binomial = make([][]int, t.theta+t.parts+2)
	for i := range t.binomial {
		t.binomial[i] = make([]int, t.parts+3)
		t.binomial[i][0] = 1
		for j := 1; j < len(t.binomial[i]) && i > 0; j++ {
			t.binomial[i][j] = t.binomial[i-1][j-1] + t.binomial[i-1][j]
		}
	}
	for j := range t.theta + 1 {
		t.pairs = append(t.pairs, math.Exp(float64(j*(j-1)/2)*t.most))
		row := make([]float64, j+1)
		for l := range row {
			row[l] = choose(j, l)
		}
		t.choose = append(t.choose, row)
	}
	for q := range t.parts + 1 {
		t.lists = append(t.lists, t.list(q))
	}
}

// eachCounts calls f for every filling of counts whose sum is at most left, and leaves them 0.
func eachCounts(counts []uint8, left int, f func(left int)) {
	if len(counts) == 0 {
		f(left)
		return
	}
	for m := range left + 1 {
		counts[0] = uint8(m)
		eachCounts(counts[1:], left-m, f)
	}
	counts[0] = 0
}

// states are those before a block: all blocks of an epoch from number `parts` on have the same.
func (t *epochBlocks) states(block int) epochStates { return t.lists[min(t.place[block], t.parts)] }

// list makes them, for blocks that are number q of their epoch.
func (t *epochBlocks) list(q int) (s epochStates) {
	size := t.multisets(t.parts + 1)
	if q < t.parts {
		size = t.multisets(q) * t.multisets(t.parts-q)
	}
	s.left, s.counts = make([]uint8, size), make([][]uint8, size)
	counts := make([]uint8, t.parts)
	add := func(left int) {
		rank := t.rank(q, left, counts)
		s.left[rank], s.counts[rank] = uint8(left), slices.Clone(counts)
	}
	if q < t.parts {
		eachCounts(counts[:q], t.theta, func(left int) {
			eachCounts(counts[q:], t.theta, func(int) { add(left) })
		})
		return s
	}
	eachCounts(counts, t.theta, func(rest int) {
		for left := range rest + 1 {
			add(left)
		}
	})
	return s
}

// multiset numbers counts with a sum of at most θ: Σ_j C(m_1+…+m_j + j-1, j).
func (t *epochBlocks) multiset(counts []uint8) (rank, sum int) {
	for j, m := range counts {
		sum += int(m)
		rank += t.binomial[sum+j][j+1]
	}
	return rank, sum
}

// multisets is how many there are of so many counts.
func (t *epochBlocks) multisets(parts int) int { return t.binomial[t.theta+parts][parts] }

// rank numbers the states before a block that is number q of its epoch.
func (t *epochBlocks) rank(q, left int, counts []uint8) int {
	if q < t.parts {
		now, _ := t.multiset(counts[:q])
		before, _ := t.multiset(counts[q:])
		return now*t.multisets(t.parts-q) + before
	}
	rank, sum := t.multiset(counts)
	return rank + t.binomial[sum+left+t.parts][t.parts+1]
}

// after is what is left before a block, of what was left after the last one.
func (t *epochBlocks) after(block, left int) int {
	if t.place[block] == 0 {
		return t.theta
	}
	return left
}

// free bounds how many copies are free at a step of a block, of a state before it, those counted
// that take part in it: of the epoch before, those are blocked whose whole block is, and those may
// be of whose block a step is.
func (t *epochBlocks) free(block, step, left int, counts []uint8) (least, most int) {
	least, most = left, left
	for d := t.place[block]; d < len(counts); d++ {
		if step-t.begins[block-d]+1 < t.MinSep {
			least -= int(counts[d])
		}
		if step-t.begins[block-d-1] < t.MinSep {
			most -= int(counts[d])
		}
	}
	return max(0, least), max(0, most)
}

// fill makes the layers from the last block to the first.
func (t *epochBlocks) fill(keep bool, most float64) error {
	t.layers = make([]*epochLayer, len(t.place))
	var after *epochLayer
	bytes := 0
	for block := len(t.place) - 1; block >= t.first; block-- {
		layer, err := t.layout(block, maxBlockBytes-bytes)
		if err != nil {
			return err
		}
		t.build(layer, block, after)
		if after = layer; !(layer.scale <= most) {
			return fmt.Errorf("%w: order %d in blocks: the moment is above e^%.4g", ErrTable, t.theta, most)
		}
		if bytes += 8*len(layer.rows) + 13*len(layer.start); keep { // what cannot be kept is of no use
			t.layers[block] = layer
		}
	}
	t.begin(after)
	return nil
}

// layout finds places for the rows of the states before a block.
func (t *epochBlocks) layout(block, maxBytes int) (*epochLayer, error) {
	states := t.states(block)
	size := len(states.left)
	layer := &epochLayer{start: make([]float64, size), offsets: make([]int32, size), widths: make([]uint8, size)}
	length, at := t.begins[block+1]-t.begins[block], 0
	for rank, counts := range states.counts {
		_, free := t.free(block, t.begins[block+1]-1, int(states.left[rank]), counts)
		layer.offsets[rank], layer.widths[rank] = int32(at), uint8(1+free)
		at += length * (1 + free)
	}
	if at > maxBytes/8 {
		return nil, fmt.Errorf("%w: order %d in blocks at min-sep %d takes more than %.3g MB", ErrTable, t.theta, t.MinSep, float64(maxBlockBytes)/(1<<20))
	}
	layer.rows = make([]float64, at)
	return layer, nil
}

// build computes a layer from the next one, nil for the last.
//
//	W_r(c) = max_F Σ_J Pr[Binom(F-c, η) = J] a_J,   a_J = e^{J·G} e^{J(J-1)/2 ‖c‖²/σ²} W_{r+1}(c+J),   G = Σ_d m_d ρ(age of block d) + c ρ(1)
//
// over the numbers F of free copies that can be.
func (t *epochBlocks) build(layer *epochLayer, block int, after *epochLayer) {
	begin, end := t.begins[block], t.begins[block+1]
	inBlock := math.Exp(t.reach[1])
	if after != nil {
		layer.scale = after.scale
	}
	next, states := make([]uint8, t.parts), t.states(block)
	for rank, counts := range states.counts {
		width := int(layer.widths[rank])
		row := layer.rows[int(layer.offsets[rank])+(end-begin-1)*width:][:width]
		copy(next[1:], counts)
		for c := range row {
			if row[c] = 1; after != nil {
				next[0] = uint8(c)
				row[c] = after.start[t.rank(t.place[block+1], t.after(block+1, int(states.left[rank])-c), next)]
			}
		}
	}
	ages := make([]float64, min(t.parts, block-t.first)) // there are no columns before the first step
	terms := make([]float64, t.theta+1)
	chances := make([]chance, t.theta+1)
	for i := end - 1; i >= begin; i-- {
		for m := range chances {
			chances[m] = chanceOf(t.hazards[i], m)
		}
		for d := range ages {
			ages[d] = t.reach[min(t.MinSep, i-t.begins[block-d]+1)]
		}
		for rank, counts := range states.counts {
			width, overlap := int(layer.widths[rank]), 0.0
			at := int(layer.offsets[rank]) + (i-begin)*width
			values := layer.rows[at : at+width]
			for d, reach := range ages {
				overlap += float64(counts[d]) * reach
			}
			x := math.Exp(overlap)
			least, most := t.free(block, i, int(states.left[rank]), counts)
			into := layer.start[rank : rank+1]
			if i > begin {
				into = layer.rows[at-width : at]
			}
			for c := range into {
				high, product := 0.0, 1.0
				for j := range max(0, most-c) + 1 {
					terms[j] = t.pairs[j] * product * values[c+j]
					product *= x
				}
				for m := max(0, least-c); m <= max(0, most-c); m++ {
					high = max(high, chances[m].expectation(terms[:m+1], t.choose[m]))
				}
				into[c] = high
				x *= inBlock
			}
		}
	}
	t.rescale(layer)
}

// chance is a probability h of each of m copies, in a form that makes sums over binomials fast and
// exact for every h.
type chance struct {
	ratio, all float64 // h/(1-h) and (1-h)^m; the other way round where h is above 1/2
	large      bool
}

func chanceOf(h float64, m int) chance {
	if h > .5 {
		return chance{(1 - h) / h, power(h, m), true}
	}
	return chance{h / (1 - h), power(1-h, m), false}
}

// power is x^m.
func power(x float64, m int) float64 {
	product := 1.0
	for range m {
		product *= x
	}
	return product
}

// expectation is Σ_j Pr[Binom(m,h) = j] a_j; choose are the C(m, j).
func (c *chance) expectation(a, choose []float64) (sum float64) {
	choose = choose[:len(a)]
	if c.large {
		for j, x := range a {
			sum = sum*c.ratio + choose[j]*x
		}
		return c.all * sum
	}
	for j := len(a) - 1; j >= 0; j-- {
		sum = sum*c.ratio + choose[j]*a[j]
	}
	return c.all * sum
}

// rescale keeps the numbers of a layer in the range of float64, by the smallest of them.
func (t *epochBlocks) rescale(layer *epochLayer) {
	unit := slices.Min(layer.start)
	if !(unit > 1e60) {
		return
	}
	for i := range layer.start {
		layer.start[i] /= unit
	}
	for i := range layer.rows {
		layer.rows[i] /= unit
	}
	layer.scale += math.Log(unit)
}

// begin sums V̂ over the waits: one of s > 0 steps is a participation of age b-s before the first
// step, each with probability 1/T.
func (t *epochBlocks) begin(first *epochLayer) {
	t.starts = make([]float64, len(first.start))
	for rank, counts := range t.states(t.first).counts {
		if prob := t.startProb(counts); prob > 0 {
			t.starts[rank] = prob * first.start[rank]
		}
	}
	sum := 0.0
	for i, x := range t.starts {
		sum += x
		t.starts[i] = sum
	}
	t.lnN = math.Log(sum) + first.scale
}

// startProb is the probability that so many copies have waits that stand for participations in each
// of the blocks before the first step.
func (t *epochBlocks) startProb(counts []uint8) float64 {
	each, prob, rest := 1/float64(t.Epoch), 1.0, t.theta
	for d, m := range counts {
		youngest, oldest := t.waits(d)
		prob *= choose(rest, int(m)) * power(float64(max(0, oldest-youngest+1))*each, int(m))
		rest -= int(m)
	}
	return prob * power(1-each*float64(t.MinSep-1), rest)
}

// waits are the least and the largest age before the first step that waits stand for, in the d-th
// block before it, counted from 0.
func (t *epochBlocks) waits(d int) (youngest, oldest int) {
	return 1 - t.begins[t.first-d], min(t.MinSep-1, -t.begins[t.first-d-1])
}

// roundingBound bounds the relative error of N̂ and of weights: every entry is a sum of at most θ+1
// products.
func (t *epochBlocks) roundingBound() float64 {
	return float64(t.Steps) * float64(4*t.theta+16) * 0x1p-53 * (4 + t.most*float64(t.theta))
}

// epochBlockSource is a table of F5.9 for epoch min-sep.
type epochBlockSource struct{ table *epochBlocks }

func (epochMinSep) blockSource(s montecarlo.Spec, columns *likelihood.Columns, order, size int, keep bool, most float64) (source, error) {
	if size < 1 || size > s.MinSep {
		return nil, fmt.Errorf("%w: blocks of %d steps at min-sep %d", ErrTable, size, s.MinSep)
	}
	e := likelihood.Epochs{Steps: s.Steps, MinSep: s.MinSep, Epoch: s.EpochSteps}
	t, err := newEpochBlocks(e, order, size, columns, 1/(s.NoiseMultiplier*s.NoiseMultiplier), keep, most)
	if err != nil {
		return nil, err
	}
	return epochBlockSource{t}, nil
}

// blockSizes are the shortest for each number of blocks that hold the last min-sep - 1 steps.
func (epochMinSep) blockSizes(s montecarlo.Spec) (sizes []int) {
	for parts := 1; parts <= maxBlockParts; parts++ {
		if size := max(1, (s.MinSep-2+parts)/parts); len(sizes) == 0 || size < sizes[len(sizes)-1] {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

func (epochMinSep) blockWork(s montecarlo.Spec, order, size int) float64 {
	parts := blockParts(s.MinSep, size)
	return epochBlockEntries(order, parts, s.Steps) * (40 + 2*float64(order)/float64(parts+2))
}

// epochBlockEntries is about how many entries the layers have, in all.
func epochBlockEntries(theta, parts, steps int) float64 {
	return blockStates(theta, parts+1) * float64(steps) * (1 + float64(theta)/float64(parts+2))
}

func (s epochBlockSource) logN() float64 {
	return s.table.lnN + max(inflation, 2*s.table.roundingBound())
}

func (s epochBlockSource) walkError() float64 {
	return float64(s.table.Steps) * float64(s.table.theta+4) * 4e-15
}

func (s epochBlockSource) walkable() bool { return true }

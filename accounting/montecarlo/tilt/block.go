package tilt

import (
	"fmt"
	"math"
	"slices"

	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/internal/likelihood"
)

// blockTable bounds the V of F5.3 from above for orders whose exact tables are too large (F5.9).
// Steps are taken in blocks of `size`, which divides min-sep. A state before a block is how many
// copies took part in each of the last `parts` = b/size blocks, m_1 … m_parts, the latest first;
// within a block also c, how many took part in it so far. All copies of a block count as having the
// least age that the block allows, and a copy counts as blocked only as long as every age in its
// block is below b.
//
// Any V̂ that is at least what F5.3 makes of it gives tuples with weights of at most N̂ = V̂ at the
// start (see [blockWalker]).
type blockTable struct {
	process
	theta, size, parts int
	blocks             int       // the last may be short
	reach              []float64 // ρ(t): the largest overlap over σ² of columns at least t steps apart
	norms              []float64 // ‖c_i‖²/σ²
	most               float64   // the largest of them
	binomial           [][]int   // C(i, j) for ranks of states
	states             []blockState
	coef               [][]float64 // coef[m][j] = Pr[Binom(m,p) = j] e^{j(j-1)/2 most}

	head   []*blockLayer // of the first `parts` blocks, before which there are no columns
	steady *blockLayer   // of the blocks after them, up to the tail
	tail   []*blockLayer // of the last blocks
	starts []float64     // partial sums of π · V̂ over the states before the first step, for drawing

	overlaps *overlaps // of the columns, when the table is kept

	lnN float64
}

// blockState is m_1 … m_parts with its place in a layer.
type blockState struct {
	counts []uint8
	free   int // Θ - m_1 - … - m_{parts-1}: copies that may take part in a block
	offset int // of its rows in a layer: `size` rows of free+1 entries, one for each c
}

// blockLayer is V̂ within a block, but for a factor that the step before the next block has in
// common: rows[r-1][c] before step r ≥ 1 of the block and after its last, start before step 0,
// where c is 0.
type blockLayer struct {
	length int // steps
	start  []float64
	norm   float64 // V̂ before the block is start/norm, in units of which the layer before is made
	rows   []float64
}

// maxBlockOrder is the highest order that is tried in blocks.
const maxBlockOrder = 60

// steadyLoss is the relative amount by which blocks that are taken for equal may raise N̂, in all.
const steadyLoss = 5e-3

// maxBlockBytes bounds the layers that are kept.
const maxBlockBytes = 200 << 20

// blockStates is C(Θ+parts, parts).
func blockStates(theta, parts int) float64 {
	count := 1.0
	for j := 1; j <= parts; j++ {
		count *= float64(theta+j) / float64(j)
	}
	return count
}

// blockEntries is about how many entries a layer has.
func blockEntries(theta, size, parts int) float64 {
	return blockStates(theta, parts) * float64(size) * (1 + 2*float64(theta)/float64(parts+1))
}

// blockWork is about how many multiplications a table takes: so many blocks go by before a layer is
// like the one after it.
func blockWork(theta, size, parts, steps int) float64 {
	each := blockEntries(theta, size, parts) * (1 + float64(theta)/float64(parts+1))
	return each * min(float64(steps)/float64(size), float64(8*parts+10))
}

// newBlockTable makes the table of an order; with keep tuples can be drawn from it, else only lnN
// is good. size must divide min-sep. It gives up where lnN exceeds most: where blocks are too
// coarse for the order, that is soon.
func newBlockTable(p process, theta, size int, keep bool, most float64) (*blockTable, error) {
	const maxBytes = maxBlockBytes
	t := &blockTable{process: p, theta: theta, size: size, parts: p.sep / size, blocks: (p.steps + size - 1) / size}
	if theta > math.MaxUint8 || blockEntries(theta, size, t.parts)*8*float64(t.parts+6) > float64(maxBytes) {
		return nil, fmt.Errorf("%w: order %d in blocks of %d steps at min-sep %d is too large", ErrTable, theta, size, p.sep)
	}
	t.measure()
	t.enumerate()
	for m := range theta + 1 {
		row := make([]float64, m+1)
		for j := range row {
			row[j] = binomial(m, j, p.prob) * math.Exp(float64(j*(j-1)/2)*t.most)
		}
		t.coef = append(t.coef, row)
	}
	if err := t.fill(keep, most, maxBytes); err != nil {
		return nil, err
	}
	if math.IsNaN(t.lnN) || math.IsInf(t.lnN, 0) {
		return nil, fmt.Errorf("%w: order %d: the sums leave the range of float64", ErrTable, theta)
	}
	if keep {
		t.overlaps = newOverlaps(p.gram.columns, p.gram.factor)
	}
	return t, nil
}

// measure sets norms and ρ, which bounds the overlap of any two columns at least t apart, and is 0
// from b on.
func (t *blockTable) measure() {
	c := t.gram.columns
	t.norms = c.SquaredNorms(t.gram.factor)
	t.most = slices.Max(t.norms)
	t.reach = reachOf(c, t.gram.factor, t.sep)
}

func (t *blockTable) enumerate() {
	top := t.theta + t.parts
	t.binomial = make([][]int, top+1)
	for i := range t.binomial {
		t.binomial[i] = make([]int, t.parts+2)
		t.binomial[i][0] = 1
		for j := 1; j < len(t.binomial[i]) && i > 0; j++ {
			t.binomial[i][j] = t.binomial[i-1][j-1] + t.binomial[i-1][j]
		}
	}
	t.states = make([]blockState, t.binomial[top][t.parts])
	counts := make([]uint8, t.parts)
	var add func(at, left int)
	add = func(at, left int) {
		if at < 0 {
			t.states[t.rank(counts)].counts = slices.Clone(counts)
			return
		}
		for m := range left + 1 {
			counts[at] = uint8(m)
			add(at-1, left-m)
		}
	}
	add(t.parts-1, t.theta)
	offset := 0
	for i := range t.states {
		s := &t.states[i]
		s.free, s.offset = t.theta, offset
		for _, m := range s.counts[:t.parts-1] {
			s.free -= int(m)
		}
		offset += t.size * (s.free + 1)
	}
}

// rank numbers the states: Σ_j C(m_1+…+m_j + j-1, j).
func (t *blockTable) rank(counts []uint8) int {
	rank, sum := 0, 0
	for j, m := range counts {
		sum += int(m)
		rank += t.binomial[sum+j][j+1]
	}
	return rank
}

// after is the rank of the state before the next block, (c, m_1 … m_{parts-1}).
func (t *blockTable) after(counts []uint8, c int) int {
	sum := c
	rank := t.binomial[sum][1]
	for j, m := range counts[:t.parts-1] {
		sum += int(m)
		rank += t.binomial[sum+j+1][j+2]
	}
	return rank
}

// entries is the size of a layer's rows.
func (t *blockTable) entries() int {
	last := t.states[len(t.states)-1]
	return last.offset + t.size*(last.free+1)
}

// fill makes the layers from the last block to the first.
func (t *blockTable) fill(keep bool, most float64, maxBytes int) error {
	after := make([]float64, len(t.states))
	for i := range after {
		after[i] = 1
	}
	scratch := t.newLayer()
	fresh := func() *blockLayer {
		if keep {
			return t.newLayer()
		}
		return scratch
	}
	for block := t.blocks - 1; block >= 0; block-- {
		layer := fresh()
		layer.length = min(t.size, t.steps-block*t.size)
		t.build(layer, after, min(block, t.parts))
		before := make([]float64, len(after))
		layer.norm = layer.start[0]
		spread := 0.0
		for i, v := range layer.start {
			before[i] = v / layer.norm
			spread = max(spread, math.Abs(math.Log(before[i]/after[i])))
		}
		if t.lnN += math.Log(layer.norm); !(t.lnN <= most) {
			return fmt.Errorf("%w: order %d in blocks of %d steps: the moment is above e^%.4g", ErrTable, t.theta, t.size, most)
		}
		after = before
		if block < t.parts {
			t.head = append(t.head, layer)
			continue
		}
		t.tail = append(t.tail, layer)
		if float64(len(t.tail)+t.parts+2)*8*float64(len(layer.rows)+len(layer.start)) > float64(maxBytes) {
			return fmt.Errorf("%w: order %d in blocks of %d steps at min-sep %d takes more than %.3g MB", ErrTable, t.theta, t.size, t.sep, float64(maxBytes)/(1<<20))
		}
		if alike := block - t.parts; alike > 0 && layer.length == t.size && spread*float64(alike) < steadyLoss {
			t.steady = fresh()
			t.steady.length = t.size
			t.build(t.steady, after, t.parts)
			for i, v := range t.steady.start {
				t.steady.norm = max(t.steady.norm, v/after[i])
			}
			t.lnN += float64(alike) * math.Log(t.steady.norm)
			block = t.parts
		}
	}
	slices.Reverse(t.head)
	slices.Reverse(t.tail)
	t.begin(after)
	return nil
}

func (t *blockTable) newLayer() *blockLayer {
	return &blockLayer{start: make([]float64, len(t.states)), rows: make([]float64, t.entries())}
}

// layer returns that of a block.
func (t *blockTable) layer(block int) *blockLayer {
	switch {
	case block < t.parts && block < len(t.head):
		return t.head[block]
	case block >= t.blocks-len(t.tail):
		return t.tail[block-(t.blocks-len(t.tail))]
	}
	return t.steady
}

// build computes a layer from V̂ before the next block. Columns exist in the last `seen` blocks
// only: participations of earlier ones are those of waits before the first step.
//
//	W_r(c) = max_{c' ≤ c} Σ_J coef[F'][J] e^{J·G} W_{r+1}(c'+J),  F' = free - c',  G = Σ_d m_d ρ(r+(d-1)·size+1) + c' ρ(1)
//
// With the maximum over c', W never falls where one more copy took part, so that one more free copy
// can only add to the sum.
func (t *blockTable) build(layer *blockLayer, after []float64, seen int) {
	inBlock := math.Exp(t.reach[min(1, t.sep)])
	for i := range t.states {
		s := &t.states[i]
		width := s.free + 1
		rows := layer.rows[s.offset : s.offset+t.size*width]
		last := rows[(layer.length-1)*width : layer.length*width]
		high := 0.0
		for c := range last {
			if high = max(high, after[t.after(s.counts, c)]); t.size == 1 {
				high = after[t.after(s.counts, c)] // the free copies are the true ones
			}
			last[c] = high
		}
		for r := layer.length - 1; r >= 0; r-- {
			overlap := 0.0
			for d, m := range s.counts[:seen] {
				overlap += float64(m) * t.reach[min(t.sep, r+d*t.size+1)]
			}
			x, next := math.Exp(overlap), rows[r*width:(r+1)*width]
			if r == 0 {
				layer.start[i] = polynomial(t.coef[s.free], next, x)
				break
			}
			high := 0.0
			into := rows[(r-1)*width : r*width]
			for c := range into {
				high = max(high, polynomial(t.coef[s.free-c], next[c:], x))
				into[c] = high
				x *= inBlock
			}
		}
	}
}

// polynomial is Σ_j coef[j] x^j value[j].
func polynomial(coef, value []float64, x float64) (sum float64) {
	value = value[:len(coef)]
	for j := len(coef) - 1; j >= 0; j-- {
		sum = sum*x + coef[j]*value[j]
	}
	return sum
}

// begin sums V̂ over the waits. A wait of s > 0 steps is a participation of age b-s before the
// first step, in the block that this age belongs to.
func (t *blockTable) begin(first []float64) {
	t.starts = make([]float64, len(t.states))
	if !t.warm {
		for i := range t.starts {
			t.starts[i] = first[0]
		}
		t.lnN += math.Log(first[0])
		return
	}
	total := 1 + float64(t.sep-1)*t.prob
	sum := 0.0
	for i, s := range t.states {
		logProb, left := 0.0, t.theta
		for d, m := range s.counts {
			waits := t.waits(d)
			if m > 0 && waits == 0 {
				logProb = math.Inf(-1)
				break
			}
			logProb += math.Log(choose(left, int(m)))
			if m > 0 {
				logProb += float64(m) * math.Log(float64(waits)*t.prob/total)
			}
			left -= int(m)
		}
		logProb -= float64(left) * math.Log(total)
		sum += math.Exp(logProb) * first[i]
		t.starts[i] = sum
	}
	t.lnN += math.Log(sum)
}

// waits is the number of ages 1 … b-1 that belong to block d, counted from 0.
func (t *blockTable) waits(d int) int { return min((d+1)*t.size, t.sep-1) - d*t.size }

// roundingBound bounds the relative error of N̂ and of weights: every entry is a sum of at most Θ+1
// products.
func (t *blockTable) roundingBound() float64 {
	return float64(t.steps) * float64(4*t.theta+16) * 0x1p-53 * (1 + t.most*float64(t.theta))
}

// blocked is a family whose orders can be bounded in blocks.
type blocked interface {
	blockSource(s montecarlo.Spec, columns *likelihood.Columns, order, size int, keep bool, most float64) (source, error)
	// blockSizes are the lengths of blocks that are of use, from the longest down.
	blockSizes(s montecarlo.Spec) []int
	// blockWork is about how many multiplications a table takes.
	blockWork(s montecarlo.Spec, order, size int) float64
	// maxBlockWork is how much a table may take.
	maxBlockWork() float64
}

// blockSizes are the divisors of min-sep.
func (bMinSep) blockSizes(s montecarlo.Spec) (sizes []int) {
	for size := s.MinSep; size >= 1; size-- {
		if s.MinSep%size == 0 {
			sizes = append(sizes, size)
		}
	}
	return sizes
}

func (bMinSep) blockWork(s montecarlo.Spec, order, size int) float64 {
	return blockWork(order, size, s.MinSep/size, s.Steps)
}

func (bMinSep) blockSource(s montecarlo.Spec, columns *likelihood.Columns, order, size int, keep bool, most float64) (source, error) {
	if s.Prob >= 1 || size < 1 || s.MinSep%size != 0 || s.MinSep > math.MaxUint16 {
		return nil, fmt.Errorf("%w: blocks of %d steps at min-sep %d and probability %g", ErrTable, size, s.MinSep, s.Prob)
	}
	t, err := newBlockTable(processOf(s, columns), order, size, keep, most)
	if err != nil {
		return nil, err
	}
	return blockSource{t}, nil
}

// blockSource is a table of F5.9.
type blockSource struct{ table *blockTable }

func (s blockSource) logN() float64 {
	return s.table.lnN + max(inflation, 2*s.table.roundingBound())
}

func (s blockSource) walkError() float64 {
	return float64(s.table.steps) * float64(s.table.theta+4) * 1e-15
}

func (s blockSource) walkable() bool { return true }

package tilt

import (
	"fmt"
	"math"
	"slices"

	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/internal/law"
	"minsep/accounting/montecarlo/internal/likelihood"
	"minsep/sampling/balanced"
)

// classBlocks bounds the V of F5.5k from above for orders whose exact tables are too large (F5.9).
// What a replica did is known up to intervals of steps: a label is a class, its participations
// left, with the interval of its last participation, or with none where it has none, or one that is
// too old to matter. A state is the multiset of the labels of all replicas.
//
// Steps are taken in blocks of `size`. A block is an interval of its own while it lasts and after
// it; the older intervals are, the longer they may be, see [intervalsAfter].
//
// V̂ of a state is the largest sum over what can happen, for any set of the replicas that may be
// free being so, with all ages the least that the intervals allow.
type classBlocks struct {
	distribution *balanced.Distribution
	theta, size  int
	norms        []float64 // ‖c_i‖²/σ²
	reach        []float64 // ρ(t): the largest overlap over σ² of columns at least t steps apart
	binomial     multisets // of labels
	begins       [][]int   // of each block, the first steps of the intervals before it, the latest first
	shapes       map[[2]int]*classShape
	layers       []*classLayer // of each block, when the table is kept
	overlaps     *overlaps     // of the columns, when the table is kept

	lnN float64
}

// classLayer is V̂ within a block, in units of 2^exp2: rows[r] before step r of the block, of
// active states, and after, after the block, of all states; others have it before each step too.
type classLayer struct {
	shape *classShape
	rows  [][]float32
	after []float32
	exp2  int
}

const (
	// maxClassBlockOrder bounds the states, and the subsets of replicas.
	maxClassBlockOrder = 6
	// maxClassBlockBytes bounds what is kept.
	maxClassBlockBytes = 1 << 30
	// maxClassBlockWork bounds the state-steps of a table, about five seconds.
	maxClassBlockWork = 2e8
)

// newClassBlocks makes the table of an order; with keep tuples can be drawn from it, else only lnN
// is good. It gives up where lnN is sure to exceed most.
func newClassBlocks(l *balanced.Distribution, theta, size int, columns *likelihood.Columns, factor float64, keep bool, most float64) (*classBlocks, error) {
	t := &classBlocks{distribution: l, theta: theta, size: size, begins: blockIntervals(l.Steps, l.MinSep, size), shapes: map[[2]int]*classShape{}}
	labels := t.labels(mostIntervals(t.begins))
	if bytes := 2 * classBlockWork(l, theta, size); theta > maxClassBlockOrder || labels > math.MaxUint16 || bytes > maxClassBlockBytes {
		return nil, fmt.Errorf("%w: order %d in blocks of %d steps at min-sep %d and %d participations is too large", ErrTable, theta, size, l.MinSep, l.Most)
	}
	t.norms, t.reach = columns.SquaredNorms(factor), reachOf(columns, factor, l.MinSep)
	t.binomial = newMultisets(theta, labels)
	if err := t.fill(keep, most); err != nil {
		return nil, err
	}
	if keep {
		t.overlaps = newOverlaps(columns, factor)
	}
	return t, nil
}

// classBlockWork is the number of states times steps.
func classBlockWork(l *balanced.Distribution, theta, size int) float64 {
	labels := classLabels(l, mostIntervals(blockIntervals(l.Steps, l.MinSep, size)))
	return countStates(theta+1, labels) * float64(l.Steps)
}

// fill makes the layers from the last block to the first.
func (t *classBlocks) fill(keep bool, most float64) error {
	t.layers = make([]*classLayer, len(t.begins))
	var next *classLayer
	var start []float32 // V̂ before the next block, of all its states, in units of its layer
	kept := 0
	for block := len(t.begins) - 1; block >= 0; block-- {
		layer := &classLayer{shape: t.shape(block)}
		t.hand(layer, block, next, start)
		start = t.build(layer, block, keep)
		top := slices.Max(start)
		if math.IsInf(float64(top), 1) {
			return fmt.Errorf("%w: order %d in blocks: the sums leave the range of float32", ErrTable, t.theta)
		}
		if least := slices.Min(start); !(math.Log(float64(least))+float64(layer.exp2)*math.Ln2 <= most) {
			return fmt.Errorf("%w: order %d in blocks: the moment is above e^%.4g", ErrTable, t.theta, most)
		}
		if keep {
			t.layers[block] = layer
			if kept += 4 * (len(layer.after) + len(layer.rows)*len(layer.shape.active)); kept > maxClassBlockBytes {
				return fmt.Errorf("%w: order %d in blocks of %d steps takes more than %.3g MB", ErrTable, t.theta, t.size, float64(maxClassBlockBytes)/(1<<20))
			}
		}
		next = layer
	}
	first := func(labels []uint16) float64 { return float64(start[t.rank(labels)]) }
	t.lnN = math.Log(t.total(first, nil)) + float64(next.exp2)*math.Ln2
	if math.IsNaN(t.lnN) || math.IsInf(t.lnN, 0) {
		return fmt.Errorf("%w: order %d: the sums leave the range of float64", ErrTable, t.theta)
	}
	return nil
}

// rescaleAt is log2 of the values of a layer above which the one before has other units.
const rescaleAt = 60

// hand sets V̂ after a block to that before the next one, 1 after the last.
func (t *classBlocks) hand(layer *classLayer, block int, next *classLayer, start []float32) {
	layer.after = make([]float32, len(layer.shape.states))
	if next == nil {
		for i := range layer.after {
			layer.after[i] = 1
		}
		return
	}
	layer.exp2 = next.exp2
	if _, log2 := math.Frexp(float64(slices.Max(start))); log2 > rescaleAt {
		layer.exp2 += log2
	}
	factor := math.Ldexp(1, next.exp2-layer.exp2)
	moved, then := t.moved(block), make([]uint16, t.theta)
	for i, labels := range layer.shape.states {
		for l, label := range labels {
			then[l] = moved[label]
		}
		layer.after[i] = roundedUp(float64(start[t.rank(then)]) * factor)
	}
}

// roundedUp is the least float32 that is not below x, which is at least 0.
func roundedUp(x float64) float32 {
	y := float32(x)
	if float64(y) < x {
		y = math.Float32frombits(math.Float32bits(y) + 1)
	}
	return y
}

// aStep is what the states of a block have in common at one of its steps, by labels.
type aStep struct {
	hazard  []float64
	overlap []float64 // e^ρ at the least age that the label's interval allows, 1 without one
	free    []freedom
	self    []float64 // e^{j(j-1)/2 ‖c_i‖²/σ²}
}

// freedom says whether replicas of a label may take part at a step.
type freedom uint8

const (
	isBlocked freedom = iota // none may
	mayBeFree                // some may
	isFree                   // all may
)

// step sets what states have in common at step i of a block.
func (t *classBlocks) step(s *aStep, block, i int) {
	s.hazard, s.overlap, s.free, s.self = s.hazard[:0], s.overlap[:0], s.free[:0], s.self[:0]
	sep := t.distribution.MinSep
	for label := range t.labels(len(t.begins[block])) {
		d, class := t.split(label)
		hazard, overlap, free := 0.0, 1.0, isFree
		if class > 0 {
			hazard = t.distribution.Hazard(class, i)
		}
		if d == 0 {
			overlap, free = math.Exp(t.reach[min(1, sep)]), isBlocked
		} else if d > 0 {
			least, largest := t.ages(block, d, i)
			overlap = math.Exp(t.reach[min(sep, least)])
			switch {
			case largest < sep:
				free = isBlocked
			case least < sep:
				free = mayBeFree
			}
		}
		s.hazard, s.overlap, s.free = append(s.hazard, hazard), append(s.overlap, overlap), append(s.free, free)
	}
	for j := range t.theta + 1 {
		s.self = append(s.self, math.Exp(float64(j*(j-1)/2)*t.norms[i]))
	}
}

// upward is by how much every V̂ is raised: more than rounding can take from a sum.
const upward = 1 + 1e-12

// build computes the rows of a layer from V̂ after the block, and returns V̂ before it of all
// states.
func (t *classBlocks) build(layer *classLayer, block int, keep bool) []float32 {
	now := slices.Clone(layer.after)
	row := make([]float32, len(layer.shape.active))
	if keep {
		layer.rows = make([][]float32, t.length(block))
	}
	var s aStep
	for r := t.length(block) - 1; r >= 0; r-- {
		t.step(&s, block, block*t.size+r)
		if keep {
			row = make([]float32, len(layer.shape.active))
			layer.rows[r] = row
		}
		for a := range layer.shape.active {
			moves := &layer.shape.active[a]
			row[a] = roundedUp(upward * t.largest(layer.shape.states[moves.state], moves, &s, now))
		}
		for a, v := range row {
			now[layer.shape.active[a].state] = v
		}
	}
	return now
}

// largest is the largest of the sums over what can happen at a step.
func (t *classBlocks) largest(labels []uint16, moves *classMoves, s *aStep, next []float32) (high float64) {
	if len(moves.actors) == 1 {
		return largestOfOne(labels, moves, s, next)
	}
	var hazards, overlaps [maxClassBlockOrder]float64 // of those who may take part
	sure, maybe, others := 0, 0, 1.0                  // others: the overlaps of all who cannot
	at := 0
	for l, label := range labels {
		if at == len(moves.actors) || int(moves.actors[at]) != l {
			others *= s.overlap[label]
			continue
		}
		hazards[at], overlaps[at] = s.hazard[label], s.overlap[label]
		switch s.free[label] {
		case isFree:
			sure |= 1 << at
		case mayBeFree:
			maybe |= 1 << at
		}
		at++
	}
	for chosen := maybe; ; chosen = (chosen - 1) & maybe {
		free, overlap := sure|chosen, others
		for a := range at {
			if free>>a&1 == 0 {
				overlap *= overlaps[a]
			}
		}
		sum := 0.0
		for subset := free; ; subset = (subset - 1) & free {
			weight, count := 1.0, 0
			for a := range at {
				switch {
				case free>>a&1 == 0:
				case subset>>a&1 == 1:
					weight *= hazards[a] * overlap
					count++
				default:
					weight *= 1 - hazards[a]
				}
			}
			sum += weight * s.self[count] * float64(next[moves.after[subset]])
			if subset == 0 {
				break
			}
		}
		high = max(high, sum)
		if chosen == 0 {
			return high
		}
	}
}

// largestOfOne is largest where only one replica may take part.
func largestOfOne(labels []uint16, moves *classMoves, s *aStep, next []float32) float64 {
	others, actor := 1.0, labels[moves.actors[0]]
	for l, label := range labels {
		if uint8(l) != moves.actors[0] {
			others *= s.overlap[label]
		}
	}
	stay := float64(next[moves.after[0]])
	if s.free[actor] == isBlocked {
		return stay
	}
	h := s.hazard[actor]
	sum := (1-h)*stay + h*others*float64(next[moves.after[1]])
	if s.free[actor] == mayBeFree {
		return max(stay, sum)
	}
	return sum
}

// total is the sum over the classes before the first step of their probability times V̂, given
// those of the first replicas.
func (t *classBlocks) total(first func([]uint16) float64, known []int) float64 {
	if len(known) == t.theta {
		labels := make([]uint16, t.theta)
		for l, class := range known {
			labels[l] = uint16(class)
		}
		return first(labels)
	}
	most, less := t.distribution.Starts()
	known = known[:len(known):len(known)]
	sum := most * t.total(first, append(known, t.distribution.Most))
	if less > 0 {
		sum += less * t.total(first, append(known, t.distribution.Most-1))
	}
	return sum
}

// classBlockSource is a table of F5.9 for balanced min-sep.
type classBlockSource struct{ table *classBlocks }

// blockSizes is the shortest length that order 3 can afford, where it has no exact table: in blocks
// higher orders are of no use.
func (balancedMinSep) blockSizes(s montecarlo.Spec) []int {
	if keptBytes(law.Balanced{Distribution: s.Balanced()}, s.Steps, 3) <= maxTableBytes {
		return nil
	}
	size := max(1, s.MinSep/8)
	for size > 1 && classBlockWork(s.Balanced(), 3, size/2) <= maxClassBlockWork {
		size /= 2
	}
	return []int{size}
}

func (balancedMinSep) blockWork(s montecarlo.Spec, order, size int) float64 {
	return classBlockWork(s.Balanced(), order, size)
}

func (balancedMinSep) maxBlockWork() float64 { return maxClassBlockWork }

func (balancedMinSep) blockSource(s montecarlo.Spec, columns *likelihood.Columns, order, size int, keep bool, most float64) (source, error) {
	if size < 1 || size > s.MinSep {
		return nil, fmt.Errorf("%w: blocks of %d steps at min-sep %d", ErrTable, size, s.MinSep)
	}
	t, err := newClassBlocks(s.Balanced(), order, size, columns, 1/(s.NoiseMultiplier*s.NoiseMultiplier), keep, most)
	if err != nil {
		return nil, err
	}
	return classBlockSource{t}, nil
}

// logN needs no more for rounding: every V̂ is raised by more.
func (s classBlockSource) logN() float64 { return s.table.lnN + inflation }

// walkError: a step of the walk adds what rounding changes in the probability of a participation.
func (s classBlockSource) walkError() float64 {
	return float64(s.table.distribution.Steps) * float64(s.table.theta+4) * 1e-15
}

func (s classBlockSource) walkable() bool { return true }

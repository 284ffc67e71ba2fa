package tilt

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"

	"minsep/accounting/montecarlo/internal/law"
)

// cell is a set of labels that a table in blocks does not tell apart. It has the labels that
// participations in an interval of steps have led to, or a single label without age.
type cell struct {
	labels   []int // before the first step of a block, ascending
	from, to int   // the interval, in steps from the block's first; from = to: no age matters
	origin   int   // the first sort that participations lead to the same labels; -1 before the run
}

// compareCells puts cells without an age first, then the oldest cells. [shape.leave] takes the
// participants of a block from the first cells, in this order, that may have been free.
func compareCells(a, b cell) int {
	if (a.from == a.to) != (b.from == b.to) {
		return cmp.Compare(b.from, a.from) // 0 without an age, else below 0
	}
	return cmp.Or(cmp.Compare(a.from, b.from), slices.Compare(a.labels, b.labels))
}

// alike says whether two cells before a block are one.
func (c cell) alike(other cell) bool {
	return c.from == other.from && c.to == other.to && c.origin == other.origin && (c.from < c.to || slices.Equal(c.labels, other.labels))
}

// freedom says whether replicas of a cell may take part at a step.
type freedom uint8

const (
	isBlocked freedom = iota // none may
	mayBeFree                // some may
	isFree                   // all may
)

// shape is the common part of all blocks that begin with the same cells.
type shape struct {
	cells  []cell
	length int   // steps
	sorts  []int // of the labels that may be free in the block
	actor  []int // of each cell, its sort's place in sorts; -1 where nobody may be free
	steps  []shapeStep
	next   []cell
	into   []int // where a cell goes with the next block
	fresh  []int // and, by the places of sorts, the cell of the replicas that took part

	states *stateList
	place  []int32 // of each state in after, and its end
	row    []int32 // and in the rows of a step; -1 where nobody may be free
	size   int     // entries of a step's rows
	after  []int32 // the states before the next block, by how many of each sort take part
}

// shapeStep is about one step of the blocks of a shape.
type shapeStep struct {
	free []freedom // of every cell
	gain []float64 // e^{m ρ} at [cell·(θ+1) + m], with the overlap ρ at the least age
}

// shapesOf makes the shapes of all blocks, and the cells before the first. After each block, next
// is called with the shapes so far; an error from it ends the work.
func (t *blocks) shapesOf(next func(so []*shape) error) ([]*shape, error) {
	all := make([]*shape, len(t.begins)-1)
	known, cells := map[string]*shape{}, t.firstCells()
	var key []byte
	for block := range all {
		begin, end := t.begins[block], t.begins[block+1]
		key = t.key(key[:0], cells, begin, end)
		s := known[string(key)]
		if s == nil {
			var err error
			if s, err = t.newShape(cells, begin, end); err != nil {
				return nil, err
			}
			known[string(key)] = s
		}
		all[block], cells = s, s.next
		if err := next(all[:block+1]); err != nil {
			return nil, err
		}
	}
	return all, nil
}

// key is the same for blocks of one shape.
func (t *blocks) key(key []byte, cells []cell, begin, end int) []byte {
	add := func(x int) { key = binary.AppendVarint(key, int64(x)) }
	if t.every > 0 {
		add(begin % t.every)
	}
	add(end - begin)
	add(min(1, t.steps-end))
	for _, c := range cells {
		add(c.from)
		add(c.to)
		add(c.origin)
		add(len(c.labels))
		for _, x := range c.labels {
			add(x)
		}
	}
	return key
}

// sortLabels numbers the sorts of free labels that ever take part. Labels of one sort have one
// hazard, and a participation leads them to one label.
func (t *blocks) sortLabels() error {
	t.sortOf = make([]int, t.law.Labels())
	for x := range t.sortOf {
		t.sortOf[x] = -1
		if !t.law.Free(x) || !t.acts(x) {
			continue
		}
		if t.law.Age(x) > 0 {
			return fmt.Errorf("%w in blocks: columns of one example overlap", ErrTable)
		}
		k := slices.IndexFunc(t.sorts, func(labels []int) bool { return t.same(x, labels[0]) })
		if k < 0 {
			k, t.sorts = len(t.sorts), append(t.sorts, nil)
		}
		t.sortOf[x], t.sorts[k] = k, append(t.sorts[k], x)
	}
	_, kinds := t.law.Kind(0)
	for x, sort := range t.sortOf {
		for kind := range kinds {
			if sort >= 0 && t.sortOf[t.law.Enter(x, kind, false)] != sort {
				return fmt.Errorf("%w in blocks: free labels do not stay free alike", ErrTable)
			}
		}
	}
	for _, labels := range t.sorts {
		t.origins = append(t.origins, slices.IndexFunc(t.sorts, func(other []int) bool { return t.joined(labels[0], other[0]) }))
	}
	return nil
}

// joined says whether participations lead two free labels to one.
func (t *blocks) joined(x, y int) bool {
	_, kinds := t.law.Kind(0)
	for kind := range kinds {
		if t.law.Enter(x, kind, true) != t.law.Enter(y, kind, true) {
			return false
		}
	}
	return true
}

// same says whether two free labels are of one sort.
func (t *blocks) same(x, y int) bool {
	if !t.joined(x, y) {
		return false
	}
	for i := range t.steps {
		if t.law.Hazard(x, i) != t.law.Hazard(y, i) {
			return false
		}
	}
	return true
}

// acts says whether a free label has a hazard.
func (t *blocks) acts(label int) bool {
	for i := range t.steps {
		if t.law.Hazard(label, i) > 0 {
			return true
		}
	}
	return false
}

// firstCells are the cells of the starts. A start that waits counts as a participation before the
// run.
func (t *blocks) firstCells() (cells []cell) {
	list, _ := t.law.Starts()
	for _, s := range list {
		if s.Prob > 0 {
			cells = addTo(cells, t.startCell(s.Label))
		}
	}
	sortCells(cells)
	t.first = make([][]law.Start, len(cells))
	of := make([]int, t.law.Labels())
	for z, c := range cells {
		for _, x := range c.labels {
			of[x] = z
		}
	}
	for _, s := range list {
		if s.Prob > 0 {
			t.first[of[s.Label]] = append(t.first[of[s.Label]], s)
		}
	}
	return cells
}

// startCell is the cell of one start.
func (t *blocks) startCell(label int) cell {
	age := t.law.Age(label)
	if age == 0 {
		return cell{labels: []int{label}, origin: -1}
	}
	from, to := t.before(-age)
	return cell{labels: []int{label}, from: from, to: to, origin: -1}
}

// addTo adds a cell to cells, or adds its labels to the cell of the same participations. sortCells
// puts the labels in order.
func addTo(cells []cell, c cell) []cell {
	for z := range cells {
		if cells[z].alike(c) {
			if c.from < c.to { // else they are the same
				cells[z].labels = append(cells[z].labels, c.labels...)
			}
			return cells
		}
	}
	return append(cells, c)
}

// sortCells puts cells and the labels in them in order.
func sortCells(cells []cell) {
	for z := range cells {
		cells[z].labels = sorted(cells[z].labels)
	}
	slices.SortFunc(cells, compareCells)
}

// sorted is a copy in ascending order, each once.
func sorted(labels []int) []int {
	labels = slices.Clone(labels)
	slices.Sort(labels)
	return slices.Compact(labels)
}

// freeFrom returns the step at which a replica, with the label before step, is first free. It also
// returns the sort of its label then, -1 if the replica never takes part.
func (t *blocks) freeFrom(label, step int) (at, sort int) {
	if at = t.law.FreeAt(label, step); at >= t.steps {
		return at, -1
	}
	return at, t.sortOf[t.law.Pass(label, step, at)]
}

// release has the first and the last step, from begin on, at which a label of a cell becomes free.
// For a label that is free already, this step is begin.
type release struct{ first, last int }

// release returns the release of a cell, and the sort of its labels, -1 where none of them is free
// to take part before end.
func (t *blocks) release(c cell, begin, end int) (at release, sort int, err error) {
	at, sort = release{math.MaxInt, 0}, -1
	for _, label := range c.labels {
		step, of := t.freeFrom(label, begin)
		if of < 0 {
			step = math.MaxInt
		}
		if at.first, at.last = min(at.first, step), max(at.last, step); step >= end {
			continue
		}
		if sort >= 0 && sort != of {
			return at, 0, fmt.Errorf("%w in blocks: labels of one interval are free in two ways", ErrTable)
		}
		sort = of
	}
	return at, sort, nil
}

func (t *blocks) newShape(cells []cell, begin, end int) (*shape, error) {
	s := &shape{cells: cells, length: end - begin, steps: make([]shapeStep, end-begin)}
	var at []release
	var latest []int // releases so far, of every sort
	for _, c := range cells {
		free, sort, err := t.release(c, begin, end)
		if err != nil {
			return nil, err
		}
		at = append(at, free)
		k := slices.Index(s.sorts, sort)
		if sort >= 0 && k < 0 {
			k = len(s.sorts)
			s.sorts, latest = append(s.sorts, sort), append(latest, begin)
		}
		if s.actor = append(s.actor, k); k < 0 {
			continue
		}
		if free.first < latest[k] { // see leave
			return nil, fmt.Errorf("%w in blocks: a participation before another blocks for longer", ErrTable)
		}
		latest[k] = free.last
	}
	for r := range s.steps {
		s.steps[r] = t.shapeStep(s, at, begin, begin+r)
	}
	if err := t.advance(s, begin, end); err != nil {
		return nil, err
	}
	if states := max(t.count(len(cells)), t.count(len(s.next))); !(states <= maxStates) || len(cells) > math.MaxUint16 {
		return nil, fmt.Errorf("%w: order %d in blocks has %.3g states", ErrTable, t.theta, states)
	}
	t.listMoves(s)
	return s, nil
}

func (t *blocks) shapeStep(s *shape, at []release, begin, i int) shapeStep {
	step := shapeStep{gain: make([]float64, 0, len(s.cells)*(t.theta+1))}
	for z, c := range s.cells {
		free := isBlocked
		switch {
		case s.actor[z] < 0:
		case at[z].last <= i:
			free = isFree
		case at[z].first <= i:
			free = mayBeFree
		}
		overlap := 0.0
		if c.origin >= 0 && t.reach[0] > 0 {
			if age := t.leastAge(c, begin, i); age > 0 {
				overlap = t.reach[min(age, len(t.reach)-1)]
			}
		}
		for m := range t.theta + 1 {
			step.gain = append(step.gain, math.Exp(float64(m)*overlap))
		}
		step.free = append(step.free, free)
	}
	return step
}

// leastAge is the least age among a cell's labels that still have one at a step.
func (t *blocks) leastAge(c cell, begin, i int) (least int) {
	for _, label := range c.labels {
		if age := t.law.Age(label); age == 0 || least > 0 && age+i-begin >= least {
			continue // ages only grow, or are of no matter any more
		}
		if age := t.law.Age(t.law.Pass(label, begin, i)); age > 0 && (least == 0 || age < least) {
			least = age
		}
	}
	return least
}

// advance sets the cells before the next block, and where replicas go.
func (t *blocks) advance(s *shape, begin, end int) error {
	length := end - begin
	if end == t.steps { // there is none
		s.next, s.into, s.fresh = []cell{{labels: []int{0}, origin: -1}}, make([]int, len(s.cells)), make([]int, len(s.sorts))
		return nil
	}
	var moved []cell // of every cell, then of every sort
	for _, c := range s.cells {
		moved = append(moved, t.passed(c, begin, end))
	}
	for k, sort := range s.sorts {
		c := cell{from: -length, to: 0, origin: t.origins[sort]}
		for _, x := range t.sorts[sort] {
			for i := begin; i < end; i++ {
				if !t.reached(s, k, x, begin, i) {
					continue
				}
				kind, _ := t.law.Kind(i + 1)
				entered := t.law.Enter(x, kind, true)
				if at, sort := t.freeFrom(entered, i+1); at < end && sort >= 0 {
					return fmt.Errorf("%w in blocks of %d steps: whoever takes part may do so again in the same block", ErrTable, length)
				}
				c.labels = append(c.labels, t.law.Pass(entered, i+1, end))
			}
		}
		c.labels = sorted(c.labels)
		moved = append(moved, t.settled(c))
	}
	for _, c := range moved {
		s.next = addTo(s.next, c)
	}
	sortCells(s.next)
	for m, c := range moved {
		z := slices.IndexFunc(s.next, c.alike)
		if m < len(s.cells) {
			s.into = append(s.into, z)
		} else {
			s.fresh = append(s.fresh, z)
		}
	}
	return nil
}

// reached says whether a replica of an acting cell of a sort may have a free label at a step.
func (t *blocks) reached(s *shape, k, label, begin, i int) bool {
	for z, c := range s.cells {
		if s.actor[z] != k || s.steps[i-begin].free[z] == isBlocked {
			continue
		}
		if len(t.sorts[s.sorts[k]]) == 1 {
			return true
		}
		for _, x := range c.labels {
			if t.law.Pass(x, begin, i) == label {
				return true
			}
		}
	}
	return false
}

// passed is the cell, before the next block, of the replicas in c that do not take part.
func (t *blocks) passed(c cell, begin, end int) cell {
	next := cell{from: c.from - (end - begin), to: c.to - (end - begin), origin: c.origin}
	if c.from == c.to {
		next.from, next.to = 0, 0
	}
	for _, x := range c.labels {
		next.labels = append(next.labels, t.law.Pass(x, begin, end))
	}
	next.labels = sorted(next.labels)
	return t.settled(next)
}

// settled drops the ages of a cell where none matters.
func (t *blocks) settled(c cell) cell {
	if len(c.labels) == 1 && t.law.Age(c.labels[0]) == 0 {
		return cell{labels: c.labels, origin: -1}
	}
	return c
}

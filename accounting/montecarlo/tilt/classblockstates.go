package tilt

import (
	"slices"

	"minsep/sampling/balanced"
)

// coarseness is how long intervals may be, as a part of the least age of what is in them.
const coarseness = 0.5

// classShape are the states of blocks with as many intervals before them, of which the same may
// become free again.
type classShape struct {
	states [][]uint16 // labels in descending order
	place  []int32    // of a state in the rows of a layer; -1 where nobody can take part in the block
	active []classMoves
}

// classMoves is a state in which somebody may take part: the positions of these labels, and the
// states after, for every subset of them, as bits.
type classMoves struct {
	state  int32
	actors []uint8
	after  []int32
}

// intervalsAfter are the intervals before the block that begins at a step, of the first steps of
// those before the last block, which began at `last`: neighbours become one where their length is
// at most coarseness times the age of the latest step in them, and those of which every age is at
// least sep are left out.
func intervalsAfter(begins []int, last, now, sep int) (after []int) {
	end := now // of the latest interval that is not yet complete
	for d := -1; d < len(begins); d++ {
		begin := last
		if d >= 0 {
			begin = begins[d]
		}
		if len(after) > 0 && float64(end-begin) <= coarseness*float64(now-end+1) {
			after[len(after)-1] = begin
			continue
		}
		if len(after) > 0 {
			end = after[len(after)-1]
		}
		if now-end+1 >= sep { // the latest step of this interval, and all before
			break
		}
		after = append(after, begin)
	}
	return after
}

// blockIntervals are the intervals before each block of a run.
func blockIntervals(steps, sep, size int) (begins [][]int) {
	var now []int
	for first := 0; first < steps; first += size {
		if first > 0 {
			now = intervalsAfter(now, first-size, first, sep)
		}
		begins = append(begins, now)
	}
	return begins
}

func mostIntervals(begins [][]int) (most int) {
	for _, b := range begins {
		most = max(most, len(b))
	}
	return most
}

// classLabels is how many labels there are with so many intervals before a block: classes without
// an interval, 0 … Most, then the classes 0 … Most-1 of the block itself and of each interval.
func classLabels(l *balanced.Distribution, intervals int) int {
	return l.Most + 1 + (intervals+1)*l.Most
}

func (t *classBlocks) labels(intervals int) int { return classLabels(t.distribution, intervals) }

// label is that of a class with the interval d before a block, counted from 1; 0 is the block
// itself.
func (t *classBlocks) label(d, class int) int {
	return t.distribution.Most + 1 + d*t.distribution.Most + class
}

// split is the class of a label, and its interval, -1 for none.
func (t *classBlocks) split(label int) (d, class int) {
	if label -= t.distribution.Most + 1; label < 0 {
		return -1, label + t.distribution.Most + 1
	}
	return label / t.distribution.Most, label % t.distribution.Most
}

// interval is that of a step before step i of a block, -1 for none.
func (t *classBlocks) interval(block, step int) int {
	if step >= block*t.size {
		return 0
	}
	for d, begin := range t.begins[block] {
		if step >= begin {
			return d + 1
		}
	}
	return -1
}

// ages are the least and the largest age at a step of the block, of participations in an interval
// before it.
func (t *classBlocks) ages(block, d, step int) (least, largest int) {
	end := block * t.size
	if d > 1 {
		end = t.begins[block][d-2]
	}
	return step - end + 1, step - t.begins[block][d-1]
}

// length is the number of steps of a block.
func (t *classBlocks) length(block int) int {
	return min(t.size, t.distribution.Steps-block*t.size)
}

// shape is that of a block.
func (t *classBlocks) shape(block int) *classShape {
	intervals, last := len(t.begins[block]), block*t.size+t.length(block)-1
	first := intervals + 1 // the intervals from this one on may be free
	for d := intervals; d >= 1; d-- {
		if _, largest := t.ages(block, d, last); largest >= t.distribution.MinSep {
			first = d
		}
	}
	key := [2]int{intervals, first}
	if t.shapes[key] == nil {
		t.shapes[key] = t.newShape(intervals, first)
	}
	return t.shapes[key]
}

func (t *classBlocks) newShape(intervals, first int) *classShape {
	s := &classShape{}
	labels, then := make([]uint16, t.theta), make([]uint16, t.theta)
	eachDescending(labels, t.labels(intervals)-1, func() {
		state := int32(len(s.states))
		s.states = append(s.states, slices.Clone(labels))
		var actors []uint8
		for l, label := range labels {
			if d, class := t.split(int(label)); class > 0 && (d < 0 || d >= first) {
				actors = append(actors, uint8(l))
			}
		}
		if len(actors) == 0 {
			s.place = append(s.place, -1)
			return
		}
		s.place = append(s.place, int32(len(s.active)))
		moves := classMoves{state, actors, make([]int32, 1<<len(actors))}
		for subset := range moves.after {
			copy(then, labels)
			for a, l := range actors {
				if subset>>a&1 == 1 {
					_, class := t.split(int(labels[l]))
					then[l] = uint16(t.label(0, class-1))
				}
			}
			moves.after[subset] = int32(t.rank(then))
		}
		s.active = append(s.active, moves)
	})
	return s
}

// rank sorts labels in descending order and returns the number of the state.
func (t *classBlocks) rank(labels []uint16) int {
	for l := 1; l < len(labels); l++ {
		for at := l; at > 0 && labels[at-1] < labels[at]; at-- {
			labels[at-1], labels[at] = labels[at], labels[at-1]
		}
	}
	return rank(t.binomial, t.theta, labels)
}

// moved is the label before the next block of every label after a block.
func (t *classBlocks) moved(block int) []uint16 {
	moved := make([]uint16, t.labels(len(t.begins[block])))
	for label := range moved {
		d, class := t.split(label)
		switch {
		case d < 0:
			moved[label] = uint16(label)
			continue
		case d == 0:
			d = t.interval(block+1, block*t.size)
		default:
			d = t.interval(block+1, t.begins[block][d-1])
		}
		moved[label] = uint16(class)
		if d >= 0 {
			moved[label] = uint16(t.label(d, class))
		}
	}
	return moved
}

package tilt

import (
	"math"
	"slices"

	"minsep/accounting/montecarlo/internal/law"
)

// states numbers the states of a table and holds the states that may follow each. A state with
// several free labels could have several numbers. Slices use only the entry for its lowest free
// label.
type states struct {
	free     []int  // the free labels, ascending
	isFree   []bool // by label
	binomial multisets
	rests    int // multisets of the labels of θ-1 replicas
	size     int // of a slice
	lags     int // steps that a move takes at most
	least    int // labels below it are in use at steps of every kind

	fixedWaits bool  // the time until a label is free is the same at every step
	down       []int // by label: the number of steps for which it counts down while its replica waits

	groups  []group
	groupAt []int // by number of replicas: the number of the first group of this size
	kinds   []transitions
}

// transitions are the states and their moves where the next step is of one kind.
type transitions struct {
	list   []tupleState
	others []uint16 // θ-1 labels of each, descending
	moves  []move
	low    int // the number of states, first in the list, with all labels below least
	labels int // in use at the steps of the kind, the lowest ones

	entered []int // by label: the label at the next step of who does not take part
	joined  []int // and of who does
	triples bool  // order 3: the list has only the states that the function triples leaves out
	from    int   // the least d of that pass
}

// tupleState is a state; its moves are the moves of its group's choices.
type tupleState struct{ number, first, group uint32 }

// move leads to a state lag ≥ 1 steps later. Its number is nobodyFree where no replica is free at
// the next step, and the time until one is free depends on the step.
type move struct{ number, lag uint32 }

const nobodyFree = math.MaxUint32

// group is a multiset of labels of free replicas.
type group struct {
	of, count []int // indices of the free labels it has, descending, and how many of each
	size      int
	choices   []choice // none takes part in the first one
}

// choice is how many of each label take part.
type choice struct {
	takes []int
	total int
}

// countStates is C(labels+θ-2, θ-1), the multisets of the labels of θ-1 replicas.
func countStates(theta, labels int) float64 {
	count := 1.0
	for k := 1; k < theta; k++ {
		count *= float64(labels+k-1) / float64(k)
	}
	return count
}

// countFree is the number of free labels.
func countFree(l law.Law) (free int) {
	for x := range l.Labels() {
		if l.Free(x) {
			free++
		}
	}
	return free
}

// sliceSize is how many entries a slice has.
func sliceSize(l law.Law, theta int) float64 {
	return float64(countFree(l)) * countStates(theta, l.Labels())
}

// countMoves is the number of moves of all states. A free replica takes part or does not, so each
// free label counts twice.
func countMoves(l law.Law, theta int) (count float64) {
	free := countFree(l)
	for f := 1; f <= theta; f++ {
		count += choose(2*free+f-1, f) * choose(l.Labels()-free+theta-f-1, theta-f)
	}
	return count
}

func (t *tuples) makeStates() {
	labels := t.law.Labels()
	t.isFree = make([]bool, labels)
	for x := range labels {
		if t.isFree[x] = t.law.Free(x); t.isFree[x] {
			t.free = append(t.free, x)
		}
	}
	t.binomial = newMultisets(t.theta, labels)
	t.rests = t.binomial[t.theta-1][labels]
	t.size = len(t.free) * t.rests
	for m := range t.theta + 1 {
		t.groupAt = append(t.groupAt, len(t.groups))
		of := make([]int, m)
		eachDescending(of, len(t.free)-1, func() { t.groups = append(t.groups, newGroup(of)) })
	}
	_, kinds := t.law.Kind(0)
	t.kinds = make([]transitions, kinds)
	t.fixedWaits = kinds == 1 && t.law.AllFreeAt(0) < 0
	t.lags, t.least = 1, labels
	for kind := range t.kinds {
		k := &t.kinds[kind]
		for x := range labels {
			k.entered, k.joined = append(k.entered, t.law.Enter(x, kind, false)), append(k.joined, t.law.Enter(x, kind, true))
			k.labels = max(k.labels, k.entered[x]+1, k.joined[x]+1)
		}
		t.least = min(t.least, k.labels)
	}
	t.down = make([]int, labels)
	for x := 1; x < labels; x++ {
		if !t.isFree[x] && !slices.ContainsFunc(t.kinds, func(k transitions) bool { return k.entered[x] != x-1 }) {
			t.down[x] = 1 + t.down[x-1]
		}
	}
	for kind := range t.kinds {
		t.makeTransitions(kind)
	}
}

func newGroup(of []int) group {
	g := group{size: len(of)}
	for l, f := range of {
		if l == 0 || of[l-1] != f {
			g.of, g.count = append(g.of, f), append(g.count, 0)
		}
		g.count[len(g.count)-1]++
	}
	takes := make([]int, len(g.of))
	for total := 0; ; {
		g.choices = append(g.choices, choice{append([]int(nil), takes...), total})
		l := 0
		for ; l < len(takes) && takes[l] == g.count[l]; l++ {
			total -= takes[l]
			takes[l] = 0
		}
		if l == len(takes) {
			return g
		}
		takes[l]++
		total++
	}
}

// groupOf is the number of the group of the free ones among labels, which descend.
func (t *tuples) groupOf(labels []int) int {
	m, number := 0, 0
	for _, x := range labels {
		if t.isFree[x] {
			m++
		}
	}
	left := m
	for _, x := range labels {
		if t.isFree[x] {
			number += t.binomial[left][t.freeIndex(x)]
			left--
		}
	}
	return t.groupAt[m] + number
}

// freeIndex is the index of a free label among them.
func (t *tuples) freeIndex(label int) int {
	for f, x := range t.free {
		if x == label {
			return f
		}
	}
	panic("tilt: label is not free")
}

func (t *tuples) makeTransitions(kind int) {
	x := &t.kinds[kind]
	x.triples = t.theta == 3 && len(t.free) == 1 && !t.room.slow
	for x.from = 1; x.triples && x.from < t.gram.sep && !t.inTriples(kind, x.from, x.from); x.from++ {
	}
	buckets := make([]transitions, 2*len(t.isFree))
	all, then := make([]int, t.theta), make([]int, t.theta)
	others := then[1:]
	number := -1
	for _, label := range t.free {
		eachDescending(others, len(t.isFree)-1, func() {
			number++
			release := 0
			for _, y := range others {
				switch {
				case !t.isFree[y]:
					release = y // the last one is the next to be free if there is one free label
				case y < label: // a state has its lowest free label first
					return
				}
			}
			if x.triples && t.inTriples(kind, others[0], others[1]) {
				return
			}
			if len(t.free) > 1 {
				release = 0
			}
			if t.theta > 1 && max(label, others[0]) >= t.least {
				release += len(t.isFree)
			}
			in := &buckets[release]
			in.list = append(in.list, tupleState{number: uint32(number)})
			for _, y := range others {
				in.others = append(in.others, uint16(y))
			}
		})
	}
	// The states of a bucket stay together in the list. Their next release is the same, so they
	// read the same later slice; their numbers ascend, so they read adjacent entries of it.
	for b, in := range buckets {
		if b < len(t.isFree) {
			x.low += len(in.list)
		}
		x.list, x.others = append(x.list, in.list...), append(x.others, in.others...)
	}
	for s := range x.list {
		st := &x.list[s]
		t.labels(all, x, s)
		copy(then, all)
		descend(then)
		group := t.groupOf(then)
		st.first, st.group = uint32(len(x.moves)), uint32(group)
		for c := range t.groups[group].choices {
			t.enter(then, all, st.group, c, x)
			x.moves = append(x.moves, t.moveTo(then))
		}
	}
}

// moveTo is the move to labels at the next step; it changes them.
func (t *tuples) moveTo(labels []int) move {
	lag := 1
	if t.fixedWaits {
		lag += t.wait(labels, 0)
	}
	descend(labels)
	t.lags = max(t.lags, lag)
	for _, x := range labels {
		if t.isFree[x] {
			return move{uint32(t.number(labels)), uint32(lag)}
		}
	}
	return move{nobodyFree, 0}
}

// labels fills dst with the labels of a state, a free one first.
func (t *tuples) labels(dst []int, x *transitions, s int) {
	k := t.theta - 1
	dst[0] = t.free[int(x.list[s].number)/t.rests]
	for l, label := range x.others[s*k : s*k+k] {
		dst[l+1] = int(label)
	}
}

// enter sets then to the labels at the next step after a choice of a group.
func (t *tuples) enter(then, all []int, number uint32, c int, x *transitions) {
	g := &t.groups[number]
	var left [maxOrder]int
	copy(left[:], g.choices[c].takes)
	for l, label := range all {
		then[l] = x.entered[label]
		for at, f := range g.of {
			if t.free[f] == label && left[at] > 0 {
				then[l] = x.joined[label]
				left[at]--
			}
		}
	}
}

// number returns the number of a state with these labels, which descend. It is made of the index of
// the last free label among the free ones, and of the rank of the other labels.
func (t *tuples) number(labels []int) int {
	own := len(labels) - 1
	if len(t.free) == 1 { // it is 0
		return rank(t.binomial, own, labels[:own])
	}
	for !t.isFree[labels[own]] {
		own--
	}
	number, left := 0, t.theta-1
	for l, x := range labels {
		if l != own {
			number += t.binomial[left][x]
			left--
		}
	}
	return t.freeIndex(labels[own])*t.rests + number
}

// numberOf returns the number of a state with these labels in any order. It sorts them.
func (t *tuples) numberOf(labels []int) int {
	if len(t.free) == 1 && labels[0] == 0 {
		descend(labels[1:])
		return rank(t.binomial, t.theta-1, labels[1:])
	}
	descend(labels)
	return t.number(labels)
}

// descend sorts a few labels.
func descend(labels []int) {
	for l := 1; l < len(labels); l++ {
		for at := l; at > 0 && labels[at-1] < labels[at]; at-- {
			labels[at-1], labels[at] = labels[at], labels[at-1]
		}
	}
}

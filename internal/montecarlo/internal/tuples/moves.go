package tuples

import (
	"math"
	"slices"
)

// moves are the states of θ copies before a step, and where they lead. A state is a multiset of
// labels, at least one of which is free or may be; see stateNumber. If no copy may be free at the
// next step, nothing happens until one is, and a move leads to that state.
type moves struct {
	states  []state
	labels  []uint16 // θ of each state, descending
	to      []move   // of each state, one for each choice of its group
	groups  []group
	woken   [][][2]int32 // by the number of copies that may be free: a state, and the one if one of them is
	count   int          // of states
	at      int          // step that these were made for
	ends    bool         // some lead to the end of the run
	reaches int          // steps ahead that they lead to at most
}

// state is its number, and the number of the group of its free labels.
type state struct{ number, group int32 }

// move leads to a state at the step from which on a label before the next step, the lowest of the
// copies, may be free; or to the end of the run, if that is earlier.
type move struct{ number, lowest int32 }

// moveBytes is about the size of a state and its moves, for each of the θ labels.
const moveBytes = 16

// stateNumber is the number of a state, given in descending order. Its last label is active. If
// several labels are active, some numbers have no state.
func (m multisets) stateNumber(labels []int32, active int) int {
	rest := len(labels) - 1
	return active*m.rank(labels[:rest]) + int(labels[rest])
}

// stateNumbers is how many numbers there are.
func (m multisets) stateNumbers(theta int, x *pattern) int {
	return x.active * m[theta-1][len(x.out)]
}

// group is the free labels of a state: the different ones in descending order, and how many copies
// have each. A choice is how many copies of each take part, by its number in mixed radix.
type group struct {
	free   []int32
	count  []int
	totals []uint8 // of each choice: how many take part
}

// newGroup takes the labels of the free copies in descending order.
func newGroup(of []int32) group {
	g := group{totals: []uint8{0}}
	for l, x := range of {
		if l > 0 && of[l-1] == x {
			g.count[len(g.count)-1]++
		} else {
			g.free, g.count = append(g.free, x), append(g.count, 1)
		}
	}
	for _, count := range g.count {
		before := g.totals
		for take := 1; take <= count; take++ {
			for _, total := range before {
				g.totals = append(g.totals, total+uint8(take))
			}
		}
	}
	return g
}

// makeMoves is for step i of an unrolled law.
func makeMoves(u *unrolled, m multisets, theta, i int) *moves {
	x, w, v := u.steps[i], newWaits(u, i+1), newMoves(u, i)
	v.woken = make([][][2]int32, theta+1)
	base := make([]int, theta+1) // of the groups of each size
	s, to := make([]int32, theta), make([]int32, theta)
	v.groups = append(v.groups, newGroup(nil))
	for size := 1; size <= theta && x.free > 0; size++ {
		base[size] = len(v.groups)
		of := s[:size]
		for clear(of); int(of[0]) < x.free; advance(of) {
			v.groups = append(v.groups, newGroup(of))
		}
	}
	for clear(s); x.active > 0 && int(s[0]) < len(x.out); nextState(s, x.active) {
		size := 0 // of the group
		for size < theta && int(s[theta-1-size]) < x.free {
			size++
		}
		g := base[size] + m.rank(s[theta-size:])
		v.states = append(v.states, state{int32(m.stateNumber(s, x.active)), int32(g)})
		for _, y := range s {
			v.labels = append(v.labels, uint16(y))
		}
		if x.active > x.free {
			v.wake(m, x.pattern, s, to, theta-size)
		}
		for choice := range v.groups[g].totals {
			for l := range theta - size {
				to[l] = x.out[s[l]]
			}
			l := theta - size
			for _, count := range v.groups[g].count {
				take := choice % (count + 1)
				choice /= count + 1
				for k := range count {
					if to[l] = x.out[s[l]]; k < take {
						to[l] = x.in[s[l]]
					}
					l++
				}
			}
			v.to = append(v.to, v.move(w, m, to))
		}
	}
	v.count = len(v.states)
	return v
}

// wake lists the states that follow from s if one more of its copies is free; waiting is the number
// of copies that are not free for sure.
func (v *moves) wake(m multisets, x *pattern, s, to []int32, waiting int) {
	open := 0
	for _, y := range s[:waiting] {
		if int(y) < x.active {
			open++
		}
	}
	for l := waiting - open; l < waiting; l++ {
		if l > 0 && s[l] == s[l-1] {
			continue // the same state again
		}
		copy(to, s)
		to[l] = x.wakes[s[l]]
		descend(to)
		v.woken[open] = append(
			v.woken[open],
			[2]int32{int32(m.stateNumber(s, x.active)), int32(m.stateNumber(to, x.active))},
		)
	}
}

// nextState is the next multiset of which at least the last label is active.
func nextState(labels []int32, active int) {
	last := len(labels) - 1
	switch {
	case int(labels[last]) < active-1 && (last == 0 || labels[last] < labels[last-1]):
		labels[last]++
	case last == 0:
		labels[0] = math.MaxInt32
	default:
		labels[last] = 0
		advance(labels[:last])
	}
}

// move is where labels before the next step lead. It changes them.
func (v *moves) move(w *waiting, m multisets, labels []int32) move {
	descend(labels)
	lowest := labels[len(labels)-1]
	after := w.until(lowest)
	if after == nil {
		v.ends = true
		return move{0, lowest}
	}
	for l, y := range labels {
		labels[l] = after[y]
	}
	descend(labels)
	return move{int32(m.stateNumber(labels, w.u.steps[w.from+w.u.steps[w.from].wait[lowest]].active)), lowest}
}

// waiting moves labels from a step to the one at which the first of them may be free.
type waiting struct {
	u     *unrolled
	from  int
	after map[int][]int32 // by steps, each label's successor
}

func newWaits(u *unrolled, from int) *waiting {
	return &waiting{u, from, map[int][]int32{}}
}

// until has the successor of each label at the step from which on one of them may be free. It is
// nil if that is the end of the run.
func (w *waiting) until(lowest int32) []int32 {
	n := len(w.u.steps)
	if w.from >= n || w.u.steps[w.from].wait[lowest] >= n-w.from {
		return nil
	}
	ahead := w.u.steps[w.from].wait[lowest]
	labels := w.after[ahead]
	if labels == nil {
		labels = make([]int32, len(w.u.steps[w.from].wait))
		for y := range labels {
			labels[y] = w.u.leaps.pass(int32(y), w.from, w.from+ahead)
		}
		w.after[ahead] = labels
	}
	return labels
}

// newMoves are the moves of step i without the states.
func newMoves(u *unrolled, i int) *moves {
	v := &moves{at: i}
	if i+1 < len(u.steps) {
		for _, wait := range u.steps[i+1].wait {
			if wait < len(u.steps)-i-1 {
				v.reaches = max(v.reaches, wait+1)
			}
		}
	}
	return v
}

// fewLabels is the number up to which labels are followed to see whether moves serve.
const fewLabels = 64

// serves says whether moves hold at another step i of their pattern too: labels lead on as from the
// step that they were made for, or to the end of the run, where V is 1 whatever the state.
func (v *moves) serves(u *unrolled, i int) bool {
	n := len(u.steps)
	if v.at == i || i+1 == n || v.at+1 == n {
		return v.at <= i
	}
	here, there := u.steps[i+1].wait, u.steps[v.at+1].wait
	same := slices.Equal(here, there)
	for k := 1; k <= v.reaches && max(i, v.at)+k < n && same; k++ {
		same = u.steps[v.at+k].pattern == u.steps[i+k].pattern
	}
	switch {
	case v.at > i && v.ends:
		return false
	case same, len(here) != len(there), len(here) > fewLabels:
		return same
	}
	now, then := newWaits(u, i+1), newWaits(u, v.at+1)
	for y := range here {
		after := now.until(int32(y))
		if after == nil {
			continue
		}
		active, was := u.steps[i+1+here[y]].active, u.steps[min(v.at+1+there[y], n-1)].active
		if active != was || !slices.Equal(after, then.until(int32(y))) {
			return false
		}
	}
	return true
}

// weights appends the weights of the choices, but for the factors of copies that are not free: with
// J participants in all and the factor Γ_x of label x for each other participant,
//
//	self[J] Π_x C(m_x, j_x) (p_x Γ_x^{J-1})^{j_x} ((1-p_x) Γ_x^J)^{m_x-j_x}.
//
// power[J] has Γ_x^J of the free labels.
func (g *group) weights(dst, prob, self []float64, power [][]float64) []float64 {
	for choice, total := range g.totals {
		w := self[total]
		for k, x := range g.free {
			count := g.count[k]
			take := choice % (count + 1)
			choice /= count + 1
			for l := range count {
				if l < take {
					w *= float64(count-l) / float64(l+1) * prob[x] * power[total-1][x]
				} else {
					w *= (1 - prob[x]) * power[total][x]
				}
			}
		}
		dst = append(dst, w)
	}
	return dst
}

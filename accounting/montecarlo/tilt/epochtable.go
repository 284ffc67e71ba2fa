package tilt

import (
	"fmt"
	"math"
)

// epochTable holds V_i(S) of F5.5: what F5.3 is for b-min-sep, for epoch min-sep (F3.8).
//
// A replica has a code before step i: 0 if it is free and not yet in this epoch, the age 1 … b-1 of
// its last participation if that is so recent, and b if it took part in this epoch at least b steps
// ago and waits for the next one. An age above the place of i in its epoch is that of a
// participation in the epoch before. Only states with a free replica have values: they are numbered
// by the codes of the θ-1 others, in descending order. Where no replica is free nothing happens
// until one is, and the state then stands for it; so long as places are below b no replica waits,
// and the states without code b, which have the lowest numbers, are all.
//
// Slice i is held as slice[i][S] · 2^exp2[i].
type epochTable struct {
	steps, sep, epoch, theta int

	gram     *gram
	binomial multisets // of codes
	heads    int       // states without code b
	count    int
	rest     []uint16 // count × (θ-1): codes of each state without the one that is free in all
	free     []uint8  // free replicas of each state
	after    [3]successors
	survive  []float64 // ln Π (1-η) over the places before each, up to the epoch's end
	slice    [][]float64
	exp2     []int
	lnN      float64     // ln N_θ, not yet rounded upward
	waits    [][]float64 // partial sums over the starts of the replicas, by the codes of those that are known
	kept     bool

	gamma, row []float64
	coef       [][]float64
	all        []uint16
}

// successors are, for a kind of step, the states that follow each state without a participation,
// and how many of their replicas are not free. With j participations the number is j higher, as
// long as one replica is free.
type successors struct {
	number []uint32
	busy   []uint8
}

// Kinds of the step that comes next: the first of an epoch, one at which replicas of the epoch
// before become free, or a later one.
const (
	atStart = iota
	early
	late
)

func (t *epochTable) kind(step int) int {
	switch place := step % t.epoch; {
	case place == 0:
		return atStart
	case place < t.sep:
		return early
	}
	return late
}

// newEpochTable runs the recursion backward within maxBytes. With keep it can be walked; else only
// lnN is good.
func newEpochTable(steps, sep, epoch, theta int, g *gram, keep bool, maxBytes int) (*epochTable, error) {
	if sep >= math.MaxUint16 {
		return nil, fmt.Errorf("%w: min-sep %d is above %d", ErrTable, sep, math.MaxUint16-1)
	}
	if bytes := epochBytes(steps, sep, epoch, theta, keep); bytes > float64(maxBytes) {
		return nil, fmt.Errorf("%w: order %d at %d steps and min-sep %d takes %.3g MB, more than %.3g", ErrTable, theta, steps, sep,
			bytes/(1<<20), float64(maxBytes)/(1<<20))
	}
	t := &epochTable{steps: steps, sep: sep, epoch: epoch, theta: theta, gram: g, kept: keep,
		slice: make([][]float64, steps+1), exp2: make([]int, steps+1), gamma: make([]float64, sep+1), row: make([]float64, sep),
		coef: make([][]float64, theta+1), all: make([]uint16, theta)}
	for m := range t.coef {
		t.coef[m] = make([]float64, m+1)
	}
	t.makeStates()
	t.survive = make([]float64, min(epoch, steps)+1)
	for place := range min(epoch, steps) {
		t.survive[place+1] = t.survive[place] + math.Log1p(-t.hazard(place))
	}
	t.slice[steps] = make([]float64, t.count)
	for s := range t.slice[steps] {
		t.slice[steps][s] = 1
	}
	var spare [][]float64
	drop := func(i int) {
		if i < steps && t.slice[i] != nil {
			spare, t.slice[i] = append(spare, t.slice[i][:t.count]), nil
		}
	}
	for i := steps - 1; i >= 0; i-- {
		size := t.count
		if i%epoch < sep {
			size = t.heads
		}
		if keep {
			t.slice[i] = make([]float64, size)
		} else {
			t.slice[i], spare = take(spare, t.count)
			t.slice[i] = t.slice[i][:size]
		}
		t.step(i)
		if keep {
			continue
		}
		if (i+1)%epoch >= sep {
			drop(i + 1)
		}
		if i%epoch == epoch-1 { // the first b steps of the epoch after the next are met no more
			for k := range sep {
				drop(min(i+1+epoch+k, steps))
			}
		}
	}
	t.start()
	if math.IsNaN(t.lnN) || math.IsInf(t.lnN, 0) {
		return nil, fmt.Errorf("%w: order %d: the sums leave the range of float64", ErrTable, theta)
	}
	return t, nil
}

// epochBytes is about what a table takes.
func epochBytes(steps, sep, epoch, theta int, keep bool) float64 {
	count, heads := countStates(theta, sep+1), countStates(theta, sep)
	fixed := 8 * (2*count + heads) // what follows each state, and the sums over starts
	if !keep {
		return fixed + 8*count*float64(min(2*sep+3, steps+1))
	}
	inHead := steps/epoch*sep + min(sep, steps%epoch)
	return fixed + 8*(heads*float64(inHead)+count*float64(steps+1-inHead))
}

// hazard is η of a place.
func (t *epochTable) hazard(place int) float64 { return 1 / float64(t.epoch-max(place, t.sep-1)) }

func (t *epochTable) makeStates() {
	k := t.theta - 1
	t.binomial = newMultisets(t.theta, t.sep+1)
	t.heads, t.count = t.binomial[k][t.sep], t.binomial[k][t.sep+1]
	t.rest = make([]uint16, t.count*k)
	t.free = make([]uint8, t.count)
	for kind := range t.after {
		t.after[kind] = successors{make([]uint32, t.count), make([]uint8, t.count)}
	}
	codes, next := make([]uint16, k), make([]uint16, k)
	eachDescending(codes, t.sep, func() {
		s := t.number(codes)
		copy(t.rest[s*k:], codes)
		busy := 0
		for ; busy < k && codes[busy] > 0; busy++ {
		}
		t.free[s] = uint8(t.theta - busy)
		for kind := range t.after {
			n := t.passed(next, codes[:busy], kind)
			t.after[kind].number[s], t.after[kind].busy[s] = uint32(t.partial(next[:n])), uint8(n)
		}
	})
}

// number is the rank of a multiset given in descending order, among those of its size.
func (t *epochTable) number(descending []uint16) int {
	return rank(t.binomial, len(descending), descending)
}

// partial is the number of a state by its codes that are not 0.
func (t *epochTable) partial(busy []uint16) int {
	return rank(t.binomial, t.theta-1, busy)
}

// passed sets dst to the codes, in descending order, of replicas that are not free after one more
// step of a kind, and returns how many.
func (t *epochTable) passed(dst, codes []uint16, kind int) (n int) {
	last := uint16(t.sep)
	for _, c := range codes {
		switch {
		case c+1 < last:
			c++
		case kind == late:
			c = last
		default:
			continue // free
		}
		dst[n] = c
		n++
	}
	return n
}

// step computes slice i from the later ones (F5.5).
func (t *epochTable) step(i int) {
	t.prepare(i)
	t.exp2[i] = t.exp2[i+1]
	dst := t.slice[i]
	if t.theta == 3 {
		t.triples(i, dst)
	} else {
		t.states(i, 0, len(dst))
	}
	if top := dst[0]; top > 1e60 {
		_, shift := math.Frexp(top)
		for s := range dst {
			dst[s] = math.Ldexp(dst[s], -shift)
		}
		t.exp2[i] += shift
	}
}

// states computes the values from up to to of slice i.
func (t *epochTable) states(i, from, to int) {
	dst, next, k := t.slice[i], t.slice[i+1], t.theta-1
	kind := t.kind(i + 1)
	after := t.after[kind]
	stride := 1
	if t.sep == 1 && kind == atStart {
		stride = 0 // whoever takes part is free again at once
	}
	// Where every replica has taken part in this epoch and has its b steps behind it when the next
	// begins, the value is one for all.
	begins := (i + 1) - (i+1)%t.epoch + t.epoch
	plain, waiting := kind == late && begins-(i+1) >= t.sep-1, 0.0
	if plain {
		waiting = t.value(min(begins, t.steps), 0, t.exp2[i])
	}
	rest := t.rest[from*k:]
	for s := from; s < to; s++ {
		gamma := 1.0
		for _, c := range rest[:k] {
			gamma *= t.gamma[c]
		}
		m, busy, from := int(t.free[s]), int(after.busy[s]), int(after.number[s])
		last := m
		none := busy+m == t.theta && stride > 0 // after m participations none is free
		if none {
			last--
		}
		coef := t.coef[m]
		sum, power := coef[0]*next[from], gamma
		for j := 1; j <= last; j++ {
			sum += coef[j] * power * next[from+j*stride]
			power *= gamma
		}
		if none {
			ahead := waiting
			if !plain {
				n := t.passed(t.all, rest[:t.theta-m], kind)
				for l := n; l < t.theta; l++ {
					t.all[l] = 1
				}
				ahead = t.settled(t.all, i+1, t.exp2[i])
			}
			sum += coef[m] * power * ahead
		}
		dst[s] = sum
		rest = rest[k:]
	}
}

// triples computes slice i of order 3, the same values in a tenth of the time. State (c, d), d ≤ c,
// has number c(c+1)/2 + d. Nearly all have one free replica, and two that do not become free at the
// next step; where the third takes part as well, the largest code says when one is free again.
func (t *epochTable) triples(i int, dst []float64) {
	b, step := t.sep, i+1
	next, place := t.slice[step], step%t.epoch
	begins := step - place + t.epoch
	first := func(c int) int { return c * (c + 1) / 2 }
	for c := 0; c <= b && first(c) < len(dst); c++ {
		row := first(c)
		if c == 0 || c >= b-1 {
			t.states(i, row, row+c+1)
			continue
		}
		t.states(i, row, row+1)
		age := c + 1                    // at the next step
		wait := max(begins-step, b-age) // until one is free
		if place < b && age > place {
			wait = b - age
		}
		values, from, gamma := dst[row+1:row+c+1], next[first(age)+2:], t.gamma[1:c+1]
		from = from[:len(values)]
		none, one, pair := t.coef[1][0], t.coef[1][1], t.gamma[c]
		ended, scale := step+wait >= t.steps, 1.0
		var ahead []float64
		if at := min(step+wait, t.steps); ended {
			scale = math.Ldexp(1, -t.exp2[i])
		} else {
			ahead = t.slice[at]
			if d := t.exp2[at] - t.exp2[i]; d != 0 {
				scale = math.Ldexp(1, d)
			}
		}
		young := max(0, min(len(values), b-wait-2)) // whose age is below b by then
		newest := 0                                 // age of the third one then
		if 1+wait < b {
			newest = 1 + wait
		}
		if ended {
			for d, x := range from {
				values[d] = none*x + one*(pair*gamma[d])*scale
			}
			continue
		}
		at := first(2+wait) + newest
		for d := range young { // of age d+2+wait then
			values[d] = none*from[d] + one*(pair*gamma[d])*(ahead[at]*scale)
			at += d + 3 + wait
		}
		x := ahead[first(newest)] * scale
		for d := young; d < len(values); d++ {
			values[d] = none*from[d] + one*(pair*gamma[d])*x
		}
	}
}

// prepare sets the constants of step i: γ by code and Binom(m,η)(j) e^{j(j-1)/2 ‖c_i‖²/σ²}.
func (t *epochTable) prepare(i int) {
	t.gram.row(t.row, i)
	t.gamma[0], t.gamma[t.sep] = 1, 1
	for age := 1; age < t.sep; age++ {
		t.gamma[age] = math.Exp(t.row[age])
	}
	for m, coef := range t.coef {
		for j := range coef {
			coef[j] = binomial(m, j, t.hazard(i%t.epoch)) * math.Exp(float64(j*(j-1)/2)*t.row[0])
		}
	}
}

// value is V of a state at a step in units of 2^exp2.
func (t *epochTable) value(step, state, exp2 int) float64 {
	v := t.slice[step][state]
	if d := t.exp2[step] - exp2; d != 0 {
		return math.Ldexp(v, d)
	}
	return v
}

// settled is V at a step for θ codes, descending, that it may change: of the state at which one of
// them is free.
func (t *epochTable) settled(all []uint16, step, exp2 int) float64 {
	step = t.settle(all, step)
	if step == t.steps {
		return math.Ldexp(1, -exp2)
	}
	return t.value(step, t.number(all[:t.theta-1]), exp2)
}

// settle lets steps pass until one of θ replicas, descending, is free, and returns that step, or
// the number of steps when none is before.
func (t *epochTable) settle(all []uint16, step int) int {
	if step >= t.steps || all[t.theta-1] == 0 {
		return min(step, t.steps)
	}
	next := math.MaxInt
	for _, c := range all {
		next = min(next, t.freeAt(int(c), step))
	}
	if next >= t.steps {
		return t.steps
	}
	t.pass(all, step, next)
	return next
}

// freeAt is the step from which on a replica is free.
func (t *epochTable) freeAt(code, step int) int {
	place := step % t.epoch
	switch begins := step - place + t.epoch; {
	case code == 0:
		return step
	case code < t.sep && code > place: // of the epoch before
		return step + t.sep - code
	default:
		return max(begins, step+t.sep-code)
	}
}

// pass changes θ codes, descending, from step to a later one, at most the first b steps of the next
// epoch, before which none takes part.
func (t *epochTable) pass(all []uint16, step, to int) {
	if to == step {
		return
	}
	for l, c := range all {
		switch age := int(c) + to - step; {
		case c == 0 || t.freeAt(int(c), step) <= to:
			all[l] = 0
		default:
			all[l] = uint16(min(age, t.sep))
		}
	}
	for l := 1; l < len(all); l++ { // few, and nearly sorted
		for at := l; at > 0 && all[at-1] < all[at]; at-- {
			all[at-1], all[at] = all[at], all[at-1]
		}
	}
}

// startProb is the probability of a code before the first step (F3.8).
func (t *epochTable) startProb(code int) float64 {
	if code == 0 {
		return float64(t.epoch-t.sep+1) / float64(t.epoch)
	}
	return 1 / float64(t.epoch)
}

// start sums V over the θ independent starts: waits[k] holds, for each multiset of k known codes,
// the sum over the others; waits[0] is N_θ in units of 2^exp2[0].
func (t *epochTable) start() {
	t.waits = make([][]float64, t.theta)
	known, all := make([]uint16, t.theta), make([]uint16, t.theta)
	for k := t.theta - 1; k >= 0; k-- {
		t.waits[k] = make([]float64, t.binomial[k][t.sep])
		eachDescending(known[:k], t.sep-1, func() {
			sum := 0.0
			for c := range t.sep {
				sum += t.startProb(c) * t.startSum(insert(all, known[:k], uint16(c)))
			}
			t.waits[k][t.number(known[:k])] = sum
		})
	}
	t.lnN = math.Log(t.waits[0][0]) + float64(t.exp2[0])*math.Ln2
}

// startSum is the sum over the unknown starts, given some of them in descending order; it may
// change them.
func (t *epochTable) startSum(known []uint16) float64 {
	if len(known) < t.theta {
		return t.waits[len(known)][t.number(known)]
	}
	return t.settled(known, 0, t.exp2[0])
}

// roundingBound bounds the relative error of N_θ, as that of table does.
func (t *epochTable) roundingBound() float64 {
	theta := float64(t.theta)
	overlaps := theta * (theta - 1) * math.Ceil(float64(t.steps)/float64(t.sep))
	most := 0.0
	for _, norm := range t.gram.columns.SquaredNorms(t.gram.factor) {
		most = max(most, norm)
	}
	return (float64(t.steps)*(4*theta+16) + overlaps*most*float64(t.gram.columns.Bands+8)) * 0x1p-53
}

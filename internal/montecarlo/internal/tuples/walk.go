package tuples

import (
	"math"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/sampling"
)

// Uniforms gives numbers in (0,1).
type Uniforms interface{ Float64() float64 }

// Walker draws tuples from a table with all slices. It is not safe for concurrent use; walkers of
// one table are alike.
type Walker struct {
	t         *Table
	copies    []alike // before the step
	following []alike // before the next step
	free      []freeCopies
	blocked   []labelled // before the next step: those who are not free
	at        []labelled
	joint     []float64 // e to the inner products of so many participations with each other and with all copies
	sums      []float64 // partial sums of the terms of choices, see take
	start     []int32
	endless   bool // before the joint: V is that of a run without end
}

// alike are copies on their way with one label before the step. In blocks they also took part at
// the same step, if that still matters, and are free from the same step on.
type alike struct {
	label      int32
	count      int
	due, since int
}

// labelled are copies with one label.
type labelled struct {
	label int32
	count int
}

// freeCopies are the copies that may take part at a step: their index in copies, the weights with
// which 0, 1, … of them do, and how many do. out and in are their labels before the next step. A
// weight is a probability times e to minus the inner products of the columns of each participant
// with its own.
type freeCopies struct {
	index   int
	weights []float64
	out, in int32
	take    int
}

// longAgo is the step of a participation that meets nothing.
const longAgo = math.MinInt / 2

// NewWalker returns a walker of a table with all slices.
func NewWalker(t *Table) *Walker { return &Walker{t: t, start: make([]int32, t.theta)} }

// Draw sets dst[:0] to a tuple, and returns it with its weight. From an exact table it is drawn
// with probability Π π(x_j) exp(Σ_{j<k} ⟨Cx_j,Cx_k⟩/σ²)/N_θ, and has the weight 1. From an upper
// bound N̂ it is drawn with a probability whose product with the weight is this, with N̂ in place
// of N_θ; the weight is at most 1.
//
// Until a step k no copy takes part with probability Π (1-η) V_k/V_i. One uniform number finds the
// step of the next participation. There copies take part with probabilities ∝ their terms of the
// recursion, whose sum is what V_k loses if none does. If V of a run without end stands for the slices up to a joint, the tuple up to there
// has a probability ∝ its weight times this V. It is kept with probability V over κ times this,
// else the walk begins again.
func (w *Walker) Draw(dst []kernel.Hit, u Uniforms) (hits []kernel.Hit, weight float64) {
	t, n := w.t, w.t.gram.Steps
	dst, weight = dst[:0], 1
	w.begin(u)
	w.endless = t.endless.joint <= n
	for i := 0; i < n && weight > 0; {
		if w.endless && i >= t.endless.joint {
			other := w.value(i, i)
			if w.endless = false; math.Log(u.Float64()) > math.Log(w.value(i, i)/other)-t.endless.accept {
				i, dst, w.endless = 0, dst[:0], true
				w.begin(u)
				continue
			}
		}
		end, free := w.next(i)
		if w.endless {
			end = min(end, t.endless.joint)
		}
		at, lost := end, 0.0
		switch {
		case free:
			at, lost = w.quiet(i, end, u.Float64())
		case t.block > 1:
			weight *= w.wait(i, end)
		default:
			w.pass(i, end)
		}
		if i = at; at < end {
			times, factor := w.choose(at, lost, u)
			dst = append(dst, kernel.Hit{Step: at, Times: times})
			weight *= factor
			i++
		}
		if t.block > 1 && i < n {
			weight *= w.wake(i)
		}
	}
	return dst, weight
}

// begin draws the labels before step 0.
func (w *Walker) begin(u Uniforms) {
	t := w.t
	clear(w.start)
	if len(t.start) > 1 {
		t.unrank(w.start, pick(t.starts, u.Float64()))
	}
	w.copies = w.copies[:0]
	for _, y := range w.start {
		x := alike{y, 1, 0, longAgo}
		if t.block > 1 {
			x.due = t.startOf(int(y), u)
		}
		w.copies = addTo(w.copies, x)
	}
}

// addTo adds copies to those that are alike.
func addTo(list []alike, x alike) []alike {
	for k := range list {
		if y := &list[k]; y.label == x.label && y.due == x.due && y.since == x.since {
			y.count += x.count
			return list
		}
	}
	return append(list, x)
}

// startOf draws the step of a start with a merged label.
func (t *Table) startOf(y int, u Uniforms) (step int) {
	if len(t.merged[y]) == 1 {
		return t.merged[y][0].Step
	}
	left := t.start[y] * u.Float64()
	for _, s := range t.merged[y] {
		step = s.Step
		if left -= s.Prob(); left < 0 {
			break
		}
	}
	return step
}

// next is the next step at which copies become free, and says whether some are free at step i.
func (w *Walker) next(i int) (end int, free bool) {
	t, end := w.t, w.t.gram.Steps
	for _, c := range w.copies {
		due := c.due
		if t.block == 1 {
			due = i + min(t.steps[i].wait[c.label], end-i)
		}
		if due <= i {
			free = true
		} else {
			end = min(end, due)
		}
	}
	return end, free
}

// pass lets the copies pass the steps from i to end, at which none takes part.
func (w *Walker) pass(i, end int) {
	for k := range w.copies {
		w.copies[k].label = w.t.leaps.pass(w.copies[k].label, i, end)
	}
}

// value is V of the copies before step i, in the unit of the slice of a step.
func (w *Walker) value(i, unit int) float64 {
	w.at = w.at[:0]
	for _, c := range w.copies {
		w.at = append(w.at, labelled{c.label, c.count})
	}
	return w.valueAt(i, unit)
}

// valueAt is V of the labels of at before step i, in the unit of the slice of a step. It changes
// them.
func (w *Walker) valueAt(i, unit int) float64 {
	t, n := w.t, w.t.gram.Steps
	for i < n {
		order(w.at)
		x, last := t.steps[i], w.at[len(w.at)-1].label
		wait := x.wait[last]
		if wait == 0 {
			number := t.numberOf(w.at, x.active)
			if w.endless && i >= t.endless.joint {
				return t.endless.slice[number] * math.Exp(t.endless.at(i)-t.scale[unit])
			}
			return t.slice[i][number] * t.relative(i, unit)
		}
		if wait >= n-i {
			break
		}
		for k := range w.at {
			w.at[k].label = t.leaps.pass(w.at[k].label, i, i+wait)
		}
		i += wait
	}
	return math.Exp(-t.scale[unit])
}

// relative is the unit of the slice of step i in that of step k.
func (t *Table) relative(i, k int) float64 {
	switch {
	case t.scale[i] == t.scale[k]:
		return 1
	case t.units == nil:
		return math.Exp(t.scale[i] - t.scale[k])
	}
	return t.units[i] / t.units[k]
}

// order puts the highest labels first.
func order(copies []labelled) {
	for l := 1; l < len(copies); l++ {
		for at := l; at > 0 && copies[at-1].label < copies[at].label; at-- {
			copies[at-1], copies[at] = copies[at], copies[at-1]
		}
	}
}

// numberOf is stateNumber of copies in order. Σ_{k=a+1}^{a+m} C(x+k-1, k) = C(x+a+m, a+m) - C(x+a,
// a) is the part of m copies with the label x in the rank, if a copies follow.
func (t *Table) numberOf(copies []labelled, active int) (number int) {
	left := t.theta - 1
	last := len(copies) - 1
	for k, c := range copies {
		after := left - c.count
		if k == last {
			after = 0
		}
		number += t.multisets[left][c.label+1] - t.multisets[after][c.label+1]
		left = after
	}
	return active*number + int(copies[last].label)
}

// wait passes the steps from i to end, at which nobody is free in truth, and returns the factor of
// this in the weight.
func (w *Walker) wait(i, end int) float64 {
	before := w.value(i, i)
	w.pass(i, end)
	return w.value(end, i) / before
}

// wake gives copies that are free by step i in truth the label of free copies, and returns the
// factor of this in the weight.
func (w *Walker) wake(i int) (factor float64) {
	t := w.t
	x, before, woken, changed := t.steps[i], 0.0, false, false
	w.following = w.following[:0]
	for _, c := range w.copies {
		if c.due <= i {
			if int(c.label) >= x.free && !woken {
				before, woken = w.value(i, i), true
			}
			changed = changed || c.since != longAgo
			c.label, c.due, c.since = x.wakes[c.label], 0, longAgo
		}
		w.following = addTo(w.following, c)
	}
	if changed || woken {
		w.copies, w.following = w.following, w.copies
	}
	if !woken {
		return 1
	}
	return w.value(i, i) / before
}

// quiet moves the copies to the step of the next participation from i on, or to end if there is
// none before it. This is the last step up to which the probability of no participation is at least
// u. Free copies stay free until end. lost is what V loses at the step if nobody takes part, in the
// unit of its slice.
func (w *Walker) quiet(i, end int, u float64) (at int, lost float64) {
	t, from := w.t, i
	current, beyond := w.value(i, from), 0.0
	least, product, most, passed := u*current, 1.0, len(t.leaps.of)-1, false
	for i < end {
		level := t.leaps.level(i, end, most)
		leap, q := t.leaps.of[level][i>>level], product
		w.at = w.at[:0]
		for _, c := range w.copies {
			w.at = append(w.at, labelled{leap.out[c.label], c.count})
			if t.block > 1 && c.due > from {
				continue
			}
			for range c.count {
				q *= leap.quiet[c.label]
			}
		}
		following := 0.0
		if q > 0 {
			following = q * w.valueAt(i+1<<level, from)
		}
		if following > 0 && following >= least {
			for k := range w.copies {
				w.copies[k].label = leap.out[w.copies[k].label]
			}
			product, current = q, following
			i += 1 << level
			if !passed {
				continue
			}
		} else {
			passed, beyond = true, following
		}
		if level == 0 { // the last value that was too small is that of the next step
			return i, (current - beyond) / product * t.relative(from, i)
		}
		most = level - 1
	}
	return i, 0
}

// choose lets free copies take part at step i, at least one, and returns their number and the
// factor of the step in the weight of the tuple. lost is the sum of the terms in truth.
func (w *Walker) choose(i int, lost float64, u Uniforms) (times int, factor float64) {
	choices := w.measure(i)
	chosen, factor := 1, 1.0
	switch {
	case w.t.block > 1:
		sum := w.addTerms(i, choices, math.Inf(1))
		if !(sum > 0 && lost > 0) {
			return 0, 0
		}
		factor = sum / lost
		chosen = 1 + pick(w.sums, u.Float64())
	case choices > 2:
		if w.addTerms(i, choices, lost*u.Float64()) == 0 {
			return 0, 0
		}
		chosen = 1 + pick(w.sums, 1) // the last one that added something
	}
	w.take(chosen)
	return w.move(i), factor
}

// addTerms sets sums to the partial sums of the terms of the choices, up to the first that is enough.
func (w *Walker) addTerms(i, choices int, enough float64) (sum float64) {
	w.sums = w.sums[:0]
	for choice := 1; choice < choices && (sum == 0 || sum < enough); choice++ {
		w.take(choice)
		sum += w.term(i)
		w.sums = append(w.sums, sum)
	}
	return sum
}

// measure lists the free copies of step i and the others, and returns the number of choices.
func (w *Walker) measure(i int) (choices int) {
	t, x, meets := w.t, w.t.steps[i], 0.0
	w.free, w.blocked, choices = w.free[:0], w.blocked[:0], 1
	for k, c := range w.copies {
		own := w.overlap(i, c)
		meets += float64(c.count) * own
		if int(c.label) >= x.free {
			w.blocked = append(w.blocked, labelled{x.out[c.label], c.count})
			continue
		}
		if len(w.free) < cap(w.free) {
			w.free = w.free[:len(w.free)+1]
		} else {
			w.free = append(w.free, freeCopies{})
		}
		f := &w.free[len(w.free)-1]
		f.index, f.out, f.in = k, x.out[c.label], x.in[c.label]
		f.setWeights(c.count, t.prob[i][c.label], own)
		choices *= c.count + 1
	}
	order(w.blocked)
	with, self := math.Exp(meets), math.Exp(t.gram.Between(i, 0))
	w.joint = append(w.joint[:0], 1)
	for all := range t.theta {
		w.joint = append(w.joint, w.joint[all]*with)
		with *= self
	}
	return choices
}

// setWeights takes the probability of each copy to take part, and its inner products.
func (f *freeCopies) setWeights(count int, p, own float64) {
	f.weights = f.weights[:0]
	ways, alone := 1.0, 1.0
	if own > 0 {
		alone = math.Exp(-own)
	}
	for j := range count + 1 {
		weight := ways
		for k := range count {
			if k < j {
				weight *= p * alone
			} else {
				weight *= 1 - p
			}
		}
		f.weights = append(f.weights, weight)
		ways *= float64(count-j) / float64(j+1)
	}
}

// take sets how many of the free copies take part, by the number of the choice in mixed radix.
func (w *Walker) take(choice int) {
	for k := range w.free {
		f := &w.free[k]
		f.take = choice % len(f.weights)
		choice /= len(f.weights)
	}
}

// term is the term of the recursion for the choice at step i, in the unit of its slice.
func (w *Walker) term(i int) float64 {
	weight, all := 1.0, 0
	w.at = append(w.at[:0], w.blocked...)
	for k := range w.free {
		f := &w.free[k]
		weight *= f.weights[f.take]
		all += f.take
		if f.take > 0 {
			w.at = append(w.at, labelled{f.in, f.take})
		}
		if stay := len(f.weights) - 1 - f.take; stay > 0 {
			w.at = append(w.at, labelled{f.out, stay})
		}
	}
	if weight == 0 {
		return 0
	}
	return weight * w.joint[all] * w.valueAt(i+1, i)
}

// overlap is the inner product of column i with the columns of one of some copies.
func (w *Walker) overlap(i int, c alike) (sum float64) {
	if w.t.block > 1 {
		return w.t.gram.Between(i, min(i+1, i-c.since))
	}
	for _, age := range w.t.steps[i].ages[c.label] {
		sum += w.t.gram.Between(i, age)
	}
	return sum
}

// follow sets following to the copies before step i+1, after the choice.
func (w *Walker) follow(i int) {
	t, next := w.t, 0
	x := t.steps[i]
	w.following = w.following[:0]
	for k, c := range w.copies {
		take := 0
		if next < len(w.free) && w.free[next].index == k {
			take = w.free[next].take
			next++
		}
		if take > 0 {
			joined := alike{x.in[c.label], take, 0, longAgo}
			if t.block > 1 {
				_, in, _, _ := t.law.next(sampling.Point{Step: i, State: x.states[c.label]})
				joined.due, joined.since = in.Step, i
			}
			w.following = addTo(w.following, joined)
		}
		if c.count > take {
			c.label, c.count = x.out[c.label], c.count-take
			w.following = addTo(w.following, c)
		}
	}
}

// move lets those who were chosen take part at step i, and returns their number.
func (w *Walker) move(i int) (times int) {
	for _, f := range w.free {
		times += f.take
	}
	w.follow(i)
	w.copies, w.following = w.following, w.copies
	return times
}

package tilt

import (
	"math"

	"minsep/accounting/montecarlo/internal/kernel"
)

// walker draws tuples from a table. It is not safe for concurrent use; walkers of one table are
// alike.
type walker struct {
	t       *tuples
	row     []float64
	all     []int // labels of every replica: a free one, then the others, descending
	then    []int
	known   []int
	join    []float64 // by number of participations at a step: their weight by overlaps
	hazards []float64
	weights []float64

	endless bool // before the joint: V belongs to a run without end
}

func newWalker(t *tuples) *walker {
	options := t.theta + 1
	if len(t.free) > 1 {
		options = 1 << t.theta
	}
	return &walker{t: t, row: make([]float64, t.gram.sep), all: make([]int, t.theta), then: make([]int, t.theta), known: make([]int, t.theta),
		join: make([]float64, t.theta+1), hazards: make([]float64, t.theta), weights: make([]float64, options)}
}

// walk appends to hits[:0] one tuple, drawn with probability Π π(x_j) exp(Σ_{j<k}
// ⟨Cx_j,Cx_k⟩/σ²)/N_θ, as the number of replicas that participate at each step.
//
// While no waiting replica becomes free, no replica takes part from step i up to step k with
// probability Π (1-η) V_k/V_i. The product is over these steps and the free replicas. So one
// uniform number finds the next participation by a search. With a steady rate, the walk goes by Ũ,
// the V of an endless run, up to step joint. There the tuple so far has probability ∝ weight · Ũ,
// and is kept with probability V/(κŨ). So tuples that are kept have probability ∝ weight · V, as
// they must. Otherwise the walk starts again.
func (w *walker) walk(hits []kernel.Hit, u *uniforms) []kernel.Hit {
	t := w.t
restart:
	hits = hits[:0]
	w.endless = t.steady >= 0
	w.start(u)
	for i := w.settle(0); ; {
		if w.endless && i >= t.joint {
			w.endless = false
			copy(w.then, w.all)
			if math.Log(u.float64()) > t.correction(i, t.numberOf(w.then))-t.accept {
				goto restart
			}
		}
		if i >= t.steps {
			return hits
		}
		end := min(t.steps, t.law.FreeUntil(i))
		if w.endless {
			end = min(end, t.joint)
		}
		for _, x := range w.all {
			if !t.isFree[x] {
				end = min(end, t.freeAt(x, i))
			}
		}
		next := w.quiet(i, end, u.float64())
		for l, x := range w.all {
			w.all[l] = t.passed(x, i, next)
		}
		i = next + w.settle(next)
		if i == end {
			continue
		}
		j := w.choose(i, u.float64())
		hits = append(hits, kernel.Hit{Step: i, Times: j})
		i++
		i += w.settle(i)
	}
}

// start sets the replicas before the first step.
func (w *walker) start(u *uniforms) {
	t := w.t
	for l := range w.all {
		drawn := t.order[0]
		if t.drawn {
			drawn = t.drawStart(w.known[:l], w.then, u.float64())
		}
		w.all[l] = t.label[drawn]
		w.known[l] = drawn
		descend(w.known[:l+1])
	}
}

// settle lets the replicas wait from a step on until one is free, and returns the number of steps.
// It puts the last free replica first, and the others in descending order. Draws depend on this
// order.
func (w *walker) settle(step int) (wait int) {
	wait = w.t.wait(w.all, step)
	free := 0
	for l, x := range w.all {
		if w.t.isFree[x] {
			free = l
		}
	}
	w.all[0], w.all[free] = w.all[free], w.all[0]
	descend(w.all[1:])
	return wait
}

// quiet returns the step of the next participation from step i on, or end when there is none before
// end. This is the last step up to which the probability of no participation is at least u. Free
// replicas stay free until end.
func (w *walker) quiet(i, end int, u float64) int {
	t := w.t
	here := t.level(i, w.endless)
	copy(w.then, w.all)
	from := here.slice[t.numberOf(w.then)]
	least := u * from
	last := w.none(i, end, here)
	if last >= least {
		return end
	}
	// The probability falls by about the same factor at each step or, where it is 0 at the end, about
	// like a power of the number of steps left. That gives a guess, and the search goes on from there
	// in growing strides.
	lo, hi, guess, stride := i, end, 0, 1
	if last > 0 {
		guess = i + int(float64(end-i)*math.Log(u)/math.Log(last/from))
	} else {
		left := u
		if free := w.countFree(); free > 1 {
			left = math.Pow(u, 1/float64(free))
		}
		guess = end - int(float64(end-i)*left)
	}
	for hi-lo > 1 {
		if guess <= lo || guess >= hi {
			guess = int(uint(lo+hi) >> 1)
		}
		if w.none(i, guess, here) >= least {
			lo = guess
			guess += stride
		} else {
			hi = guess
			guess -= stride
		}
		stride *= 2
	}
	return lo
}

// none is the probability of no participation in the steps i … k-1, times V_k in the scale of here,
// the level of step i.
func (w *walker) none(i, k int, here level) float64 {
	t := w.t
	survive, label, one := 1.0, -1, 1.0
	for l, x := range w.all {
		if !t.isFree[x] {
			continue
		}
		if w.then[l] = x; x != label {
			label, one = x, t.law.Quiet(x, i, k)
		}
		survive *= one
	}
	if survive == 0 {
		return 0
	}
	for l, x := range w.all {
		if !t.isFree[x] {
			w.then[l] = t.passed(x, i, k)
		}
	}
	at := t.level(k, w.endless)
	return survive * at.slice[t.numberOf(w.then)] * at.over(here)
}

// lastAlive returns the last step from i to end at which alive holds, by bisection. It holds at i,
// and at no step after one at which it does not.
func lastAlive(i, end int, alive func(step int) bool) int {
	if alive(end) {
		return end
	}
	lo, hi := i, end // alive at lo
	for hi-lo > 1 {
		if mid := int(uint(lo+hi) >> 1); alive(mid) {
			lo = mid
		} else {
			hi = mid
		}
	}
	return lo
}

// choose lets replicas take part at step i, and returns their number, at least 1. With one free
// label only this number is drawn. With several a subset of the free replicas is drawn; draws
// depend on the order of the subsets.
func (w *walker) choose(i int, u float64) int {
	t := w.t
	free := w.countFree()
	if free == 1 {
		w.enter(w.then, i, 1)
		w.all, w.then = w.then, w.all
		return 1
	}
	w.prepare(i)
	last := 1<<free - 1
	if len(t.free) == 1 {
		last = free
	}
	sum, most := 0.0, 0
	here := t.level(i, w.endless)
	for option := 1; option <= last; option++ {
		j, p := w.prob(option, free)
		if w.weights[option] = 0; p == 0 {
			continue
		}
		w.enter(w.then, i, option)
		w.weights[option] = p * w.join[j] * t.value(w.then, i+1, here, w.endless)
		sum += w.weights[option]
		most = option
	}
	u *= sum
	chosen := most
	for option := 1; option < most; option++ {
		if w.weights[option] == 0 {
			continue
		}
		if u -= w.weights[option]; u < 0 {
			chosen = option
			break
		}
	}
	j, _ := w.prob(chosen, free)
	w.enter(w.then, i, chosen)
	w.all, w.then = w.then, w.all
	return j
}

func (w *walker) countFree() (free int) {
	for _, x := range w.all {
		if w.t.isFree[x] {
			free++
		}
	}
	return free
}

// prepare sets the hazards of the free replicas and the weights of overlaps at step i.
func (w *walker) prepare(i int) {
	t := w.t
	free := 0
	t.gram.row(w.row, i)
	gamma := 0.0
	for _, x := range w.all {
		switch age := t.law.Age(x); {
		case t.isFree[x]:
			w.hazards[free] = t.law.Hazard(x, i)
			free++
		case age > 0:
			gamma += w.row[age]
		}
	}
	for j := 1; j <= free; j++ {
		w.join[j] = math.Exp(float64(j*(j-1)/2)*w.row[0] + float64(j)*gamma)
	}
}

// prob returns the number of replicas that take part in an option, and the probability of the
// option, where free is the number of free replicas. With one free label the option is that number
// of participants; with several it is a bit set of free replicas.
func (w *walker) prob(option, free int) (j int, p float64) {
	if len(w.t.free) == 1 {
		return option, binomial(free, option, w.hazards[0])
	}
	p = 1
	for l, h := range w.hazards[:free] {
		if option>>l&1 == 1 {
			p *= h
			j++
		} else {
			p *= 1 - h
		}
	}
	return j, p
}

// enter sets then to the labels before step i+1, in the order of all.
func (w *walker) enter(then []int, i, option int) {
	t := w.t
	if len(t.free) == 1 { // the first ones, option in number
		option = 1<<option - 1
	}
	kind, _ := t.law.Kind(i + 1)
	free := 0
	for l, x := range w.all {
		takes := false
		if t.isFree[x] {
			takes = option>>free&1 == 1
			free++
		}
		then[l] = t.law.Enter(x, kind, takes)
	}
}

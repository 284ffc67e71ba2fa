package tilt

import (
	"minsep/accounting/montecarlo/internal/kernel"
)

// classWalker draws tuples from a classTable that keeps its slices. It is not safe for concurrent
// use; walkers of one table are alike.
type classWalker struct {
	t                        *classTable
	labels, then             []int // of every replica, in the order of a state
	row, gamma, hazard, self []float64
}

func newClassWalker(t *classTable) *classWalker {
	return &classWalker{t: t, labels: make([]int, t.theta), then: make([]int, t.theta), row: make([]float64, t.sep), gamma: make([]float64, t.sep),
		hazard: make([]float64, t.distribution.Most+1), self: make([]float64, t.theta+1)}
}

// walk appends to hits[:0] one tuple, drawn with probability Π π(x_j) exp(Σ_{j<k}
// ⟨Cx_j,Cx_k⟩/σ²)/N_θ.
//
// While no blocked replica becomes free, nothing happens from step i to step k with probability Π
// (1-η) V_k/V_i, the product over these steps and the free replicas; so one uniform number finds
// the next participation by bisection.
func (w *classWalker) walk(hits []kernel.Hit, u *uniforms) []kernel.Hit {
	t := w.t
	hits = hits[:0]
	w.start(u)
	for i := 0; i < t.steps; {
		end := t.steps
		for _, label := range w.labels {
			if r := label % t.sep; r > 0 {
				end = min(end, i+r)
			}
		}
		next := w.quiet(i, end, u.float64())
		w.wait(w.labels, next-i)
		if i = next; i == end {
			continue
		}
		j, lag := w.choose(i, u.float64())
		hits = append(hits, kernel.Hit{Step: i, Times: j})
		i += lag
	}
	return hits
}

// start draws the classes before the first step, one replica after another.
func (w *classWalker) start(u *uniforms) {
	t := w.t
	most, _ := t.distribution.Starts()
	classes := make([]int, 0, t.theta)
	for range t.theta {
		class := t.distribution.Most
		if most < 1 {
			all := t.total(classes)
			if with := most * t.total(append(classes, class)); u.float64()*all >= with {
				class--
			}
		}
		classes = append(classes, class)
	}
	for l, class := range classes {
		w.labels[l] = class * t.sep
	}
	t.settle(w.labels)
}

// wait lets steps pass in which no replica takes part, of which the first stays free.
func (w *classWalker) wait(labels []int, steps int) {
	b := w.t.sep
	for l, label := range labels {
		labels[l] = max(label-steps, label/b*b)
	}
	w.t.settle(labels)
}

// quiet returns the step of the next participation from step i on, or end when there is none before
// it.
func (w *classWalker) quiet(i, end int, u float64) int {
	t := w.t
	from := t.value(w.labels, i, t.exp2[i])
	alive := func(k int) bool { // no participation in i..k-1
		survive := 1.0
		for _, label := range w.labels {
			if label%t.sep == 0 {
				survive *= t.distribution.Quiet(label/t.sep, i, k)
			}
		}
		if survive == 0 {
			return false
		}
		copy(w.then, w.labels)
		w.wait(w.then, k-i)
		return survive*t.value(w.then, k, t.exp2[i])/from >= u
	}
	return lastAlive(i, end, alive)
}

// choose lets replicas take part at step i, at least one, and returns how many, and the steps until
// one is free.
func (w *classWalker) choose(i int, u float64) (j, lag int) {
	t := w.t
	t.constants(i, w.row, w.gamma, w.hazard, w.self)
	s := &t.states[t.number(w.labels)]
	gamma := 1.0
	for _, r := range s.blocked[:t.theta-int(s.free)] {
		gamma *= w.gamma[r]
	}
	var weights [1 << maxOrder]float64
	sum, last := 0.0, 0
	for subset := 1; subset < 1<<s.free; subset++ {
		p, count := 1.0, 0
		for l, class := range s.classes[:s.free] {
			if h := w.hazard[class]; subset>>l&1 == 1 {
				p *= h * gamma
				count++
			} else {
				p *= 1 - h
			}
		}
		if p == 0 {
			continue
		}
		copy(w.then, w.labels)
		ahead := t.pass(w.then, subset)
		weights[subset] = p * w.self[count] * t.value(w.then, min(t.steps, i+ahead), t.exp2[i])
		sum += weights[subset]
		last = subset
	}
	u *= sum
	chosen := last
	for subset := 1; subset < last; subset++ {
		if weights[subset] == 0 {
			continue
		}
		if u -= weights[subset]; u < 0 {
			chosen = subset
			break
		}
	}
	for rest := chosen; rest > 0; rest &= rest - 1 {
		j++
	}
	return j, t.pass(w.labels, chosen)
}

package tilt

import (
	"math"
	"slices"

	"minsep/accounting/montecarlo/internal/kernel"
)

// epochWalker draws tuples from an epochTable that keeps its slices. It is not safe for concurrent
// use; walkers of one table are alike.
type epochWalker struct {
	t    *epochTable
	row  []float64
	all  []uint16 // codes of every replica, descending
	then []uint16 // scratch
}

func newEpochWalker(t *epochTable) *epochWalker {
	return &epochWalker{t: t, row: make([]float64, t.sep), all: make([]uint16, t.theta), then: make([]uint16, t.theta)}
}

// walk appends to hits[:0] one tuple, drawn with probability Π π(x_j) exp(Σ_{j<k}
// ⟨Cx_j,Cx_k⟩/σ²)/N_θ.
//
// While the number m of free replicas is the same, nothing happens from step i to step k with
// probability Π (1-η)^m V_k/V_i over these steps; so one uniform number finds the next
// participation by bisection.
func (w *epochWalker) walk(hits []kernel.Hit, u *uniforms) []kernel.Hit {
	t := w.t
	hits = hits[:0]
	w.start(u)
	for i := 0; ; {
		if i = t.settle(w.all, i); i >= t.steps {
			return hits
		}
		end := w.constant(i)
		next := w.quiet(i, end, u.float64())
		t.pass(w.all, i, next)
		if i = next; i == end {
			continue
		}
		j := w.choose(i, u.float64())
		hits = append(hits, kernel.Hit{Step: i, Times: j})
		w.join(w.all, i, j)
		i++
	}
}

// start draws the codes before the first step, one replica after another.
func (w *epochWalker) start(u *uniforms) {
	t := w.t
	for l := range w.all {
		known := w.all[:l]
		x, drawn := u.float64()*t.startSum(append(w.then[:0], known...)), t.sep-1
		for c := range t.sep - 1 {
			if x -= t.startProb(c) * t.startSum(insert(w.then, known, uint16(c))); x < 0 {
				drawn = c
				break
			}
		}
		w.all[l] = uint16(drawn)
		slices.SortFunc(w.all[:l+1], descending)
	}
}

// constant is the step up to which the number of free replicas stays the same without a
// participation.
func (w *epochWalker) constant(i int) int {
	t := w.t
	end := min(t.steps, i-i%t.epoch+t.epoch)
	for _, c := range w.all {
		if c > 0 {
			end = min(end, t.freeAt(int(c), i))
		}
	}
	return end
}

// quiet returns the step of the next participation after step i, or end when there is none before
// it.
func (w *epochWalker) quiet(i, end int, u float64) int {
	t := w.t
	m := 0
	for l := t.theta - 1; l >= 0 && w.all[l] == 0; l-- {
		m++
	}
	from, place := t.value(i, t.number(w.all[:t.theta-1]), t.exp2[i]), i%t.epoch
	alive := func(k int) bool { // no participation in i..k-1
		survive := math.Exp(float64(m) * (t.survive[place+k-i] - t.survive[place]))
		if survive == 0 {
			return false
		}
		copy(w.then, w.all)
		t.pass(w.then, i, k)
		return survive*t.settled(w.then, k, t.exp2[i])/from >= u
	}
	return lastAlive(i, end, alive)
}

// choose returns how many replicas participate at step i, at least one.
func (w *epochWalker) choose(i int, u float64) int {
	t := w.t
	t.gram.row(w.row, i)
	m, gamma := 0, 0.0
	for _, c := range w.all {
		if c == 0 {
			m++
		} else if int(c) < t.sep {
			gamma += w.row[c]
		}
	}
	var weight [maxOrder + 1]float64
	sum := 0.0
	for j := 1; j <= m; j++ {
		copy(w.then, w.all)
		w.join(w.then, i, j)
		weight[j] = binomial(m, j, t.hazard(i%t.epoch)) * math.Exp(float64(j*(j-1)/2)*w.row[0]+float64(j)*gamma) * t.settled(w.then, i+1, t.exp2[i])
		sum += weight[j]
	}
	u *= sum
	for j := 1; j < m; j++ {
		if u -= weight[j]; u < 0 {
			return j
		}
	}
	return m
}

// join lets j free replicas participate at step i and goes to the next step.
func (w *epochWalker) join(all []uint16, i, j int) {
	t := w.t
	first := t.theta - j
	t.pass(all[:first], i, i+1)
	age := uint16(1)
	if t.sep == 1 && (i+1)%t.epoch == 0 {
		age = 0
	}
	for l := first; l < t.theta; l++ {
		all[l] = age
	}
	for l := first; l > 0 && all[l-1] < age; l-- { // zeros before the new ones
		for at := l; at < l+j; at++ {
			all[at-1], all[at] = all[at], all[at-1]
		}
	}
}

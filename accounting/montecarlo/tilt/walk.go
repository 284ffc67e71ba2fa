package tilt

import (
	"math"
	"slices"

	"minsep/accounting/montecarlo/internal/kernel"
	"minsep/sampling/stream"
)

// uniforms gives the numbers in (0,1) of one sample, in order. Two walks through one address are
// alike.
type uniforms struct {
	bulk   *stream.Bulk
	sample uint64
	block  uint64
	words  [64]uint64
	next   int
}

func (u *uniforms) reset(sample uint64) { u.sample, u.block, u.next = sample, 0, len(u.words) }

// float64 returns the next number, a multiple of 2^-53 plus 2^-54.
func (u *uniforms) float64() float64 {
	if u.next == len(u.words) {
		u.bulk.Words(u.words[:], u.sample, u.block)
		u.block += uint64(len(u.words) / 2)
		u.next = 0
	}
	w := u.words[u.next]
	u.next++
	return (float64(w>>11) + 0.5) * 0x1p-53
}

// walker draws tuples from a table. It is not safe for concurrent use; walkers of one table are
// alike.
type walker struct {
	t     *table
	gamma []float64
	row   []float64
	all   []uint16 // blocked steps left of every replica, descending
	rest  []uint16

	endless bool // before the joint: V is that of a run without end
}

func newWalker(t *table) *walker {
	return &walker{t: t, gamma: make([]float64, t.sep), row: make([]float64, t.sep),
		all: make([]uint16, t.states.theta), rest: make([]uint16, t.states.theta)}
}

// walk appends to hits[:0] one tuple, drawn with probability Π π(x_j) exp(Σ_{j<k}
// ⟨Cx_j,Cx_k⟩/σ²)/N_θ, as the number of replicas that participate at each step.
//
// From state S at step i with m free replicas, nothing happens before step k with probability
// (1-p)^{m(k-i)} V_k/V_i, where S runs down meanwhile; so one uniform number finds the next
// participation by bisection. With a steady rate, the V of the walk are those of an endless run, Ũ,
// up to step joint. There the tuple so far has probability ∝ weight · Ũ, and is kept with
// probability V/(κŨ), which makes it ∝ weight · V as it must be; else the walk starts again.
func (w *walker) walk(hits []kernel.Hit, u *uniforms) []kernel.Hit {
	t := w.t
restart:
	hits = hits[:0]
	i := 0
	w.endless = t.steady >= 0
	w.start(u)
	for {
		s, wait := w.settle()
		i += wait
		if w.endless && i >= t.joint {
			w.endless = false
			if math.Log(u.float64()) > t.correction(i, s)-t.accept {
				goto restart
			}
		}
		if i >= t.steps {
			return hits
		}
		end := t.steps
		if w.endless {
			end = t.joint
		}
		if r := t.states.release(s); r > 0 {
			end = min(end, i+r)
		}
		next := w.quiet(i, end, s, u.float64())
		w.pass(next - i)
		if i = next; i == end {
			continue
		}
		j := w.choose(i, u.float64())
		hits = append(hits, kernel.Hit{Step: i, Times: j})
		w.pass(1)
		w.join(j)
		i++
	}
}

// start sets the replicas before the first step.
func (w *walker) start(u *uniforms) {
	clear(w.all)
	if !w.t.warm {
		return
	}
	for l := range w.all {
		w.all[l] = w.t.drawWait(w.all[:l], w.rest, u.float64())
		slices.SortFunc(w.all[:l+1], descending)
	}
}

func descending(a, b uint16) int { return int(b) - int(a) }

// settle lets the replicas run down until one is free and returns the state then.
func (w *walker) settle() (state, wait int) { return w.t.states.settle(w.all) }

// pass lets d steps go by.
func (w *walker) pass(d int) {
	for l, r := range w.all {
		w.all[l] = uint16(max(0, int(r)-d))
	}
}

// join blocks j free replicas for the next b-1 steps.
func (w *walker) join(j int) {
	copy(w.all[j:], w.all[:len(w.all)-j])
	for l := range j {
		w.all[l] = uint16(w.t.sep - 1)
	}
}

// quiet returns the step of the next participation after state s at step i, or end when there is
// none before it.
func (w *walker) quiet(i, end, s int, u float64) int {
	t := w.t
	m := float64(t.states.free(s))
	survive := m * math.Log1p(-t.prob)
	from, entries := t.level(i, w.endless), t.states.entries(s)
	alive := func(k int) bool { // no participation in i..k-1
		d := k - i
		for l, r := range entries {
			w.rest[l] = uint16(max(0, int(r)-d))
		}
		to := t.level(k, w.endless)
		ratio := to.slice[t.states.number(w.rest[:len(entries)])] / from.slice[s]
		return math.Exp(float64(d)*survive)*to.over(from)*ratio >= u
	}
	return lastAlive(i, end, alive)
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

// choose returns how many replicas participate at step i, at least one.
func (w *walker) choose(i int, u float64) int {
	t := w.t
	t.gram.row(w.row, i)
	from := t.level(i, w.endless)
	m, gamma := 0, 0.0
	for _, r := range w.all {
		if r == 0 {
			m++
		} else {
			gamma += w.row[t.sep-int(r)]
		}
	}
	var weight [maxOrder + 1]float64
	sum := 0.0
	for j := 1; j <= m; j++ {
		copy(w.rest, w.all)
		next, lag := w.peek(j)
		to := t.level(min(i+1+lag, t.steps), w.endless)
		weight[j] = binomial(m, j, t.prob) * math.Exp(float64(j*(j-1)/2)*w.row[0]+float64(j)*gamma) * to.slice[next] * to.over(from)
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

// peek returns the state that follows when j free replicas participate now, and the wait for it
// after the next step.
func (w *walker) peek(j int) (next, wait int) {
	for l := len(w.all) - 1; l >= j; l-- {
		w.rest[l] = uint16(max(0, int(w.all[l-j])-1))
	}
	for l := range j {
		w.rest[l] = uint16(w.t.sep - 1)
	}
	return w.t.states.settle(w.rest)
}

// correction is ln V_i(S)/Ũ_i(S) at a step i of the kept tail.
func (t *table) correction(i, s int) float64 {
	return t.level(i, false).log(s) - t.level(i, true).log(s)
}

// measureJoint sets accept to the greatest correction that a walk can meet.
func (t *table) measureJoint() {
	t.accept = math.Inf(-1)
	for i := t.joint; i < t.joint+t.sep; i++ {
		tail, endless := t.level(i, false), t.level(i, true)
		high := 0.0
		for s, v := range tail.slice {
			high = max(high, v/endless.slice[s])
		}
		t.accept = max(t.accept, math.Log(high*tail.over(endless)))
	}
}

// startWarm sums V_0 over the θ independent stationary waits (F3): waits[k] holds, for each
// multiset of k known waits, the sum over the others; waits[0] is N_θ up to the scale of slice 0.
func (t *table) startWarm() {
	theta, b := t.states.theta, t.sep
	t.waitScale = make([]float64, b)
	for i := range t.waitScale {
		t.waitScale[i] = t.level(min(i, t.steps), false).over(t.level(0, false))
	}
	t.waits = make([][]float64, theta)
	known, all := make([]uint16, theta), make([]uint16, theta)
	for k := theta - 1; k >= 0; k-- {
		t.waits[k] = make([]float64, t.states.binomial[k][b])
		eachDescending(known[:k], b-1, func() {
			number := t.states.number(known[:k])
			if k == 2 && theta == 3 {
				t.waits[k][number] = t.thirdWait(int(known[0]), int(known[1]))
				return
			}
			sum := 0.0
			for r := range b {
				sum += t.waitProb(r) * t.waitSum(insert(all, known[:k], uint16(r)))
			}
			t.waits[k][number] = sum
		})
	}
	t.lnN = math.Log(t.waits[0][0]) + float64(t.exp2[0])*math.Ln2 + t.ln[0]
}

// thirdWait is the sum over the wait of the last of three replicas, given those of two, d ≤ c: what
// waitSum makes of it in a fraction of the time.
func (t *table) thirdWait(c, d int) (sum float64) {
	first := func(c int) int { return c * (c + 1) / 2 }
	settled := func(r int) []float64 { return t.at(min(r, t.steps)) }
	free, busy := t.waitProb(0), t.waitProb(t.sep-1)
	sum = free * (settled(0)[first(c)+d] * t.waitScale[0])
	for r := 1; r <= d; r++ {
		sum += busy * (settled(r)[first(c-r)+d-r] * t.waitScale[r])
	}
	ahead, scale := settled(d), t.waitScale[d]
	for r := d + 1; r <= c; r++ {
		sum += busy * (ahead[first(c-d)+r-d] * scale)
	}
	for r := c + 1; r < t.sep; r++ {
		sum += busy * (ahead[first(r-d)+c-d] * scale)
	}
	return sum
}

// insert copies known, descending, with r added, into dst[:len(known)+1].
func insert(dst, known []uint16, r uint16) []uint16 {
	l := len(known)
	for ; l > 0 && known[l-1] < r; l-- {
		dst[l] = known[l-1]
	}
	copy(dst, known[:l])
	dst[l] = r
	return dst[:len(known)+1]
}

// waitProb is the stationary distribution of the blocked steps left before the first step (arXiv
// 2602.09338, Algorithm 2; F3).
func (t *table) waitProb(r int) float64 {
	total := 1 + float64(t.sep-1)*t.prob
	if r == 0 {
		return 1 / total
	}
	return t.prob / total
}

// waitSum is the sum over the unknown waits, given some of them in descending order; it may change
// them.
func (t *table) waitSum(known []uint16) float64 {
	if len(known) < t.states.theta {
		return t.waits[len(known)][t.states.number(known)]
	}
	s, i := t.states.settle(known)
	return t.at(min(i, t.steps))[s] * t.waitScale[i]
}

// drawWait draws one more wait given the known ones, descending.
func (t *table) drawWait(known, scratch []uint16, u float64) uint16 {
	u *= t.waits[len(known)][t.states.number(known)]
	for r := range t.sep - 1 {
		if u -= t.waitProb(r) * t.waitSum(insert(scratch, known, uint16(r))); u < 0 {
			return uint16(r)
		}
	}
	return uint16(t.sep - 1)
}

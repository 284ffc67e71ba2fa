package tilt

import (
	"errors"
	"fmt"
	"math"

	"minsep/accounting/montecarlo/internal/law"
)

// ErrTable is wrapped by errors that say why a tuple table of some order cannot be had: it takes
// too much memory, or its numbers leave the range of float64. A lower order may do.
var ErrTable = errors.New("tilt: no tuple table")

// tuples holds V_i(S) of F5.3 and F5.5 for a law of participation and θ replicas of one
// example: the sum over all ways to go on from state S before step i (0-based) of Π π(x_j)
// exp(Σ_{j<k} ⟨Cx_j,Cx_k⟩/σ²), counting participations from step i on. V is 1 after the last
// step.
//
// A state is the multiset of the replicas' labels, at least one of them free. Where no replica is
// free, nothing happens until one is, and the state at that time has the same V. The number of a
// state follows from its lowest free label and the multiset of the other labels.
//
// Step i is held as slice[i][S] · 2^exp2[i] · e^ln[i].
type tuples struct {
	law          law.Law
	steps, theta int
	gram         *gram
	room         room

	states
	slice [][]float64
	exp2  []int
	ln    []float64
	steadyRate
	starts

	lnN      float64 // ln N_θ, not yet rounded upward
	walkable bool    // a table of this order can be kept

	constants
	factor  []float64 // factor[lag]: scale of step i+lag over the scale of step i
	ahead   [][]float64
	waiting float64 // V where nobody is free, in the scale of step i; -1 where it depends on who waits
	waits   []int   // steps from i+1 until a label is free, where that depends on the step
	rows    []tripleRow
	all     []int
	then    []int
}

// room says how much of a table is held, and in how many bytes.
type room struct {
	keep     bool // every slice, to draw tuples from; else only lnN is good
	maxBytes int
	state    int  // bytes of a state beside its slices
	passing  int  // slices that are held at one time where they are not kept
	steady   bool // the law is the same at every step: see steadyRate
	slow     bool // no pass of its own for order 3

	watch watcher
}

// fits says whether a number of slices, of a number of states each, fits in maxBytes.
func (r room) fits(slices int, states float64) bool {
	return states*(8*float64(slices)+float64(r.state)) <= float64(r.maxBytes)
}

// stateBytes is about the size of a state and its moves.
const stateBytes = 96

// keptBytes is about the size of a table that keeps its slices.
func keptBytes(l law.Law, steps, theta int) float64 {
	return sliceSize(l, theta) * (8*float64(steps+1) + stateBytes)
}

// constants are the inputs of the recursion at a step.
type constants struct {
	ages       []int         // by label
	row, gamma []float64     // gamma is e^⟨c_i,c_j⟩/σ² by the label of a replica that took part at j
	self       []float64     // e^{j(j-1)/2 ‖c_i‖²/σ²}
	interior   bool          // row is the same for every step far from the ends
	hazard     []float64     // of the free labels
	part       [][][]float64 // part[f][m][j] is Pr[Binom(m,η) = j] with the hazard of the f-th free label
	coef       [][]float64   // of the choices of each group
}

// newTuples runs the recursion backward.
func newTuples(l law.Law, steps, theta int, g *gram, r room) (*tuples, error) {
	t := &tuples{law: l, steps: steps, theta: theta, gram: g, room: r, steadyRate: steadyRate{steady: -1, joint: steps + 1}}
	if l.Labels() > math.MaxUint16 {
		return nil, fmt.Errorf("%w: min-sep %d is above %d", ErrTable, g.sep, math.MaxUint16-1)
	}
	count := sliceSize(l, theta)
	fits := func(slices int) bool { return r.fits(slices, count) }
	canEnd := r.steady && g.interior > 0
	if !fits(r.passing) || r.keep && !fits(steps+1) && !(canEnd && fits(2*g.sep+4)) {
		return nil, t.tooLarge()
	}
	if r.keep && !fits(steps+1) {
		t.joint = max(0, steps-g.sep)
	}
	t.makeStates()
	t.prepareTables()
	if err := t.backward(); err != nil {
		return nil, err
	}
	t.walkable = fits(steps+1) || r.steady && t.steady >= 3*g.sep && steps >= steadySteps*g.sep && fits(2*g.sep+4)
	if t.steady < 0 && r.keep && !fits(steps+1) {
		return nil, t.tooLarge()
	}
	if t.steady >= 0 && r.keep {
		t.measureJoint()
	}
	t.sumStarts()
	if math.IsNaN(t.lnN) || math.IsInf(t.lnN, 0) {
		return nil, fmt.Errorf("%w: order %d: the sums leave the range of float64", ErrTable, theta)
	}
	return t, nil
}

func (t *tuples) tooLarge() error {
	return fmt.Errorf("%w: order %d at %d steps and min-sep %d takes more than %.3g MB: %.3g states a step", ErrTable, t.theta, t.steps, t.gram.sep,
		float64(t.room.maxBytes)/(1<<20), sliceSize(t.law, t.theta))
}

func (t *tuples) prepareTables() {
	n, labels := t.steps, t.law.Labels()
	t.slice, t.exp2, t.ln = make([][]float64, n+1), make([]int, n+1), make([]float64, n+1)
	t.row, t.gamma, t.self = make([]float64, t.gram.sep), make([]float64, labels), make([]float64, t.theta+1)
	t.factor, t.ahead = make([]float64, t.lags+1), make([][]float64, t.lags+1)
	t.all, t.then = make([]int, t.theta), make([]int, t.theta)
	t.waits = make([]int, labels)
	for x := range labels {
		t.ages = append(t.ages, t.law.Age(x))
	}
	for range t.free {
		t.hazard = append(t.hazard, math.NaN())
	}
	t.part = make([][][]float64, len(t.free))
	for f := range t.part {
		t.part[f] = make([][]float64, t.theta+1)
		for m := range t.part[f] {
			t.part[f][m] = make([]float64, m+1)
		}
	}
	t.coef = make([][]float64, len(t.groups))
	for g, x := range t.groups {
		t.coef[g] = make([]float64, len(x.choices))
	}
}

// backward computes the slices from the last step to the first, and releases slices that no earlier
// step needs.
func (t *tuples) backward() error {
	n, sep, whole := t.steps, t.gram.sep, t.room.keep && t.joint > t.steps
	t.slice[n] = make([]float64, t.size)
	for s := range t.slice[n] {
		t.slice[n][s] = 1
	}
	var run steadyRun
	var spare [][]float64
	for i := n - 1; i >= 0; i-- {
		if !whole {
			for from, to := t.law.Unmet(i + 1); from < min(to, n, t.joint); from++ {
				if t.slice[from] != nil {
					spare, t.slice[from] = append(spare, t.slice[from]), nil
				}
			}
		}
		t.slice[i], spare = take(spare, t.size)
		t.step(i)
		if err := t.room.watch.tell(float64(t.size)); err != nil {
			return err
		}
		if !whole && t.room.steady && i+1 < t.gram.interior && i+1 < t.joint && i >= 2*sep {
			if run.add(t.slice[i], t.slice[i+1], t.exp2[i]-t.exp2[i+1]) >= sep {
				t.settleSteady(i, run)
				if _, drawn := t.law.Starts(); !drawn {
					return nil
				}
				i = sep // and down from b-1, where participations before the first step are missing
			}
		}
	}
	return nil
}

func take(spare [][]float64, size int) (slice []float64, rest [][]float64) {
	if last := len(spare) - 1; last >= 0 {
		return spare[last], spare[:last]
	}
	return make([]float64, size), spare
}

// prepare sets the constants of step i.
func (t *tuples) prepare(i int) {
	changed := t.prepareRow(i)
	for f, label := range t.free {
		hazard := t.law.Hazard(label, i)
		if hazard == t.hazard[f] {
			continue
		}
		t.hazard[f], changed = hazard, true
		for m, part := range t.part[f] {
			for j := range part {
				part[j] = binomial(m, j, hazard)
			}
		}
	}
	if !changed {
		return
	}
	for g := range t.groups {
		x := &t.groups[g]
		for c, choice := range x.choices {
			w := t.self[choice.total]
			for l, f := range x.of {
				w *= t.part[f][x.count[l]][choice.takes[l]]
			}
			t.coef[g][c] = w
		}
	}
}

// prepareRow sets the constants that depend on the columns of C alone, and says whether they
// have changed.
func (t *tuples) prepareRow(i int) bool {
	interior := i < t.gram.interior && i+1 >= t.gram.sep
	if interior && t.interior {
		return false
	}
	t.interior = interior
	t.gram.row(t.row, i)
	for x, age := range t.ages {
		t.gamma[x] = 1
		if age > 0 && t.row[age] != 0 { // columns as far apart as the bands do not overlap
			t.gamma[x] = math.Exp(t.row[age])
		}
	}
	for j := range t.self {
		t.self[j] = math.Exp(float64(j*(j-1)/2) * t.row[0])
	}
	return true
}

// binomial is Pr[Binom(m,p) = j].
func binomial(m, j int, p float64) float64 {
	x := 1.0
	for k := range j {
		x *= float64(m-k) / float64(k+1) * p
	}
	for range m - j {
		x *= 1 - p
	}
	return x
}

// step computes slice i from the later ones.
func (t *tuples) step(i int) {
	t.prepare(i)
	t.exp2[i], t.ln[i] = t.exp2[i+1], t.ln[i+1]
	here := level{exp2: t.exp2[i], ln: t.ln[i]}
	for lag := 1; lag <= t.lags; lag++ {
		next := t.level(min(i+lag, t.steps), false)
		t.ahead[lag], t.factor[lag] = next.slice, next.over(here)
	}
	t.prepareWaits(i+1, here)
	dst := t.slice[i]
	if top := t.apply(dst, i); top > 1e60 {
		_, shift := math.Frexp(top)
		for s := range dst {
			dst[s] = math.Ldexp(dst[s], -shift)
		}
		t.exp2[i] += shift
	}
}

// prepareWaits sets the constants that depend on the waits from a step on.
func (t *tuples) prepareWaits(step int, in level) {
	if t.fixedWaits {
		return // moves have them
	}
	t.waiting = -1
	if at := t.law.AllFreeAt(step); at >= 0 {
		for l := range t.then {
			t.then[l] = t.free[0]
		}
		t.waiting = t.value(t.then, min(at, t.steps), in, false)
		for x := range t.waits {
			t.waits[x] = at - step
		}
		return
	}
	for x := range t.waits {
		t.waits[x] = t.law.FreeAt(x, step) - step
	}
}

// apply evaluates the recursion for all states with the constants of step i, and returns the
// greatest value of the states in the list.
func (t *tuples) apply(dst []float64, i int) (top float64) {
	kind, _ := t.law.Kind(i + 1)
	x := &t.kinds[kind]
	if x.triples {
		t.triples(dst, i, x)
	}
	list := x.list
	if kind, _ := t.law.Kind(i); t.kinds[kind].labels == t.least {
		list = list[:x.low]
	}
	one, k, others := len(t.free) == 1, t.theta-1, x.others
	gammas, coefs, factor, ahead := t.gamma, t.coef, t.factor, t.ahead
	next, nextFactor, waiting := ahead[1], factor[1], t.waiting
	for s, st := range list {
		gamma := 1.0
		for _, label := range others[s*k : s*k+k] {
			gamma *= gammas[label]
		}
		coef := coefs[st.group]
		moves := x.moves[st.first : int(st.first)+len(coef)]
		sum := coef[0] * nextFactor * next[moves[0].number]
		if one {
			power := gamma
			for c := 1; c < len(coef); c++ {
				to := moves[c]
				if to.number == nobodyFree { // all who are free take part
					v := waiting
					if v < 0 {
						v = t.after(i, x, s, c)
					}
					sum += coef[c] * power * v
					break
				}
				sum += coef[c] * power * factor[to.lag] * ahead[to.lag][to.number]
				power *= gamma
			}
		} else {
			sum = t.rest(sum, gamma, i, x, s, 1)
		}
		dst[st.number] = sum
		if sum > top {
			top = sum
		}
	}
	return top
}

// rest adds to sum the terms of the choices from number from on, for a law with several free
// labels. A choice may leave no replica free.
func (t *tuples) rest(sum, gamma float64, i int, x *transitions, s, from int) float64 {
	st := &x.list[s]
	coef, choices := t.coef[st.group], t.groups[st.group].choices
	for c := from; c < len(coef); c++ {
		power := gamma
		for range choices[c].total - 1 {
			power *= gamma
		}
		if to := x.moves[int(st.first)+c]; to.number != nobodyFree {
			sum += coef[c] * power * t.factor[to.lag] * t.ahead[to.lag][to.number]
		} else {
			sum += coef[c] * power * t.after(i, x, s, c)
		}
	}
	return sum
}

// after is V, in the scale of step i, after a choice at step i that leaves no replica free.
func (t *tuples) after(i int, x *transitions, s, choice int) float64 {
	if t.waiting >= 0 {
		return t.waiting
	}
	in := level{exp2: t.exp2[i], ln: t.ln[i]}
	if len(t.free) > 1 {
		t.labels(t.all, x, s)
		t.enter(t.then, t.all, x.list[s].group, choice, x)
		return t.value(t.then, i+1, in, false)
	}
	// With one free label all free replicas take part, and labels count down: see [law.Law].
	k := t.theta - 1
	t.then[k] = x.joined[0]
	wait := t.waits[t.then[k]]
	for l, label := range x.others[s*k : s*k+k] {
		next := x.entered[label]
		if label == 0 {
			next = x.joined[0]
		}
		t.then[l] = next
		wait = min(wait, t.waits[next])
	}
	for l, label := range t.then {
		t.then[l] = t.passed(label, i+1, i+1+wait)
	}
	descend(t.then)
	at := t.level(min(i+1+wait, t.steps), false)
	return at.slice[rank(t.binomial, k, t.then[:k])] * at.over(in)
}

// value is V before a step for labels in any order, in the scale of another level. It changes the
// labels.
func (t *tuples) value(labels []int, step int, in level, endless bool) float64 {
	step += t.wait(labels, step)
	if step >= t.steps && !endless {
		return level{}.over(in)
	}
	at := t.level(min(step, t.steps), endless)
	return at.slice[t.numberOf(labels)] * at.over(in)
}

// wait lets steps pass until a replica is free, and returns their number.
func (t *tuples) wait(labels []int, step int) int {
	next := math.MaxInt
	for _, x := range labels {
		if t.isFree[x] {
			return 0
		}
		next = min(next, t.freeAt(x, step))
	}
	for l, x := range labels {
		labels[l] = t.passed(x, step, next)
	}
	return next - step
}

// passed is the label before a later step of a replica that takes part at none before it.
func (t *tuples) passed(label, from, to int) int {
	if to-from <= t.down[label] {
		return label - (to - from)
	}
	return t.law.Pass(label, from, to)
}

// freeAt is the step at which a replica is first free.
func (t *tuples) freeAt(label, step int) int {
	if d := t.down[label]; d > 0 && t.isFree[label-d] {
		return step + d
	}
	return t.law.FreeAt(label, step)
}

// level is one step's slice and scale.
type level struct {
	slice []float64
	exp2  int
	ln    float64
}

// level returns V_i, or with endless its counterpart in a run without end.
func (t *tuples) level(i int, endless bool) level {
	if endless && i >= t.joint {
		return level{t.u, t.exp2[t.steady], float64(t.steady-i) * t.logRate}
	}
	if s := t.slice[i]; s != nil {
		return level{s, t.exp2[i], t.ln[i]}
	}
	return level{t.u, t.exp2[i], t.ln[i]}
}

// over is the scale of a over the scale of b.
func (a level) over(b level) float64 {
	if a.ln == b.ln && a.exp2 == b.exp2 {
		return 1
	}
	return a.ratio(b)
}

func (a level) ratio(b level) float64 {
	return math.Ldexp(math.Exp(a.ln-b.ln), a.exp2-b.exp2)
}

// log returns the logarithm of one value.
func (a level) log(state int) float64 {
	return math.Log(a.slice[state]) + float64(a.exp2)*math.Ln2 + a.ln
}

// roundingBound bounds the relative error of N_θ. Each step of a path through the recursion rounds
// at most 4θ+16 times, and once more for every choice above θ+1 that a sum adds up; an exponent
// Σ⟨Cx_j,Cx_k⟩/σ² has a relative error of a sum of `bands` products; a pair of patterns overlaps in
// at most 2 ceil(n/b) pairs of columns.
func (t *tuples) roundingBound() float64 {
	theta := float64(t.theta)
	overlaps := theta * (theta - 1) * math.Ceil(float64(t.steps)/float64(t.gram.sep))
	most := 0.0
	for _, norm := range t.gram.columns.SquaredNorms(t.gram.factor) {
		most = max(most, norm)
	}
	terms := 0
	for _, x := range t.groups {
		terms = max(terms, len(x.choices)-t.theta-1)
	}
	rounding := float64(t.steps)*(4*theta+16+float64(terms)) + overlaps*most*float64(t.gram.columns.Bands+8)
	return rounding*0x1p-53 + t.spread + float64(t.steps)*t.residual
}

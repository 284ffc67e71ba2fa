package tilt

import (
	"errors"
	"fmt"
	"math"
)

// ErrTable is wrapped by errors that say why a tuple table of some order cannot be had: it takes
// too much memory, or its numbers leave the range of float64. A lower order may do.
var ErrTable = errors.New("tilt: no tuple table")

// table holds V_i(S) of F5.3: the sum over all ways to go on from state S before step i (0-based)
// of Π π(x_j) exp(Σ_{j<k} ⟨Cx_j,Cx_k⟩/σ²), counting what happens from step i on. V is 1 after the
// last step.
//
// Step i is held as slice[i][S] · 2^exp2[i] · e^ln[i]. Far from both ends of a Toeplitz C the
// recursion is the same at every step, and V_i/V_{i+1} tends to a constant λ. It is a positive
// linear map of the next b steps: once lo ≤ V_i(S)/V_{i+1}(S) ≤ hi for all S at b steps in a row,
// the same holds at all earlier ones. So one slice U stands for them, V_i ≈ hi^{steady-i} U, an
// upper bound within (hi/lo)^n. A sampler needs the later steps too: the last ones are kept and
// those between are replaced by U as well; the walk mends that by rejection at step `joint` (see
// [walker.walk]).
type table struct {
	process
	states *states
	slice  [][]float64
	exp2   []int
	ln     []float64

	steady   int       // V_i ∝ U for i ≤ steady (warm: and i ≥ b); -1 when every step was computed
	u        []float64 // the slice U = V_steady
	logRate  float64   // ln hi
	joint    int       // first step of the kept tail when steady ≥ 0 and slices are kept
	accept   float64   // ln of the smallest factor κ with V ≤ κ Ũ over what can follow step joint
	spread   float64   // bound of the relative error of Σ from the steady rate
	residual float64   // largest relative difference of U from one more step of the recursion

	walkable bool // a table of this order can be kept

	lnN       float64     // ln N_θ, not yet rounded upward
	waits     [][]float64 // warm: partial sums over the initial waits, see startWarm
	waitScale []float64   // the scale of each of the first b slices over that of the first
	factor    []float64   // factor[lag]: scale of step i+lag over that of step i
	ahead     [][]float64
	rows      [][]float64 // of triples
	gamma     []float64
	row       []float64
	coef      [][]float64
}

// process is one example's participation, F3: cold or warm b-min-sep.
type process struct {
	steps, sep int
	prob       float64
	warm       bool
	gram       *gram

	watch func(work float64) // if not nil, is told of states times steps as they are done
}

// Bounds of the slices held at one time: all of them, or the tail, the head and the working ring.
// Order 2 has b states a step, and may take more where there are too few steps for a steady rate,
// since it is the only order there: up to n·b = 8e7.
const (
	maxTableBytes = 140 << 20
	maxPairBytes  = 640 << 20
)

// tableBytes is the bound for an order.
func tableBytes(steps, sep, order int) int {
	if order == 2 && steps < steadySteps*sep {
		return maxPairBytes
	}
	return maxTableBytes
}

// steadySteps is how many times min-sep steps a steady rate takes at least.
const steadySteps = 5

// steadyTolerance is the spread of V_i/V_{i+1} over states and b steps at which it counts as
// constant.
const steadyTolerance = 2e-14

// newTable runs the recursion backward within maxBytes. With keep it can be walked; else only lnN
// is good.
func newTable(p process, theta int, keep bool, maxBytes int) (*table, error) {
	states, err := tryStates(theta, p.sep, maxBytes)
	if err != nil {
		return nil, err
	}
	n, b := p.steps, p.sep
	t := &table{process: p, states: states, steady: -1,
		slice: make([][]float64, n+1), exp2: make([]int, n+1), ln: make([]float64, n+1),
		factor: make([]float64, b+1), ahead: make([][]float64, b+1),
		rows: make([][]float64, b), gamma: make([]float64, b), row: make([]float64, b), coef: make([][]float64, theta+1),
	}
	for m := range t.coef {
		t.coef[m] = make([]float64, m+1)
	}
	fits := func(slices int) bool { return slices <= maxBytes/8/states.count }
	t.joint = n + 1 // keep all
	switch {
	case keep && fits(n+1):
	case keep && p.gram.interior > 0:
		t.joint = max(0, n-b)
		if !fits(2*b + 4) {
			return nil, tooLarge(theta, p, maxBytes)
		}
	case keep:
		return nil, tooLarge(theta, p, maxBytes)
	case !fits(b + 2):
		return nil, tooLarge(theta, p, maxBytes)
	}
	whole := keep && t.joint > n
	t.slice[n] = make([]float64, states.count)
	for s := range t.slice[n] {
		t.slice[n][s] = 1
	}
	var run steadyRun
	var spare [][]float64
	for i := n - 1; i >= 0; i-- {
		if old := i + b + 1; !whole && old < min(n, t.joint) && t.slice[old] != nil {
			spare, t.slice[old] = append(spare, t.slice[old]), nil
		}
		t.slice[i], spare = take(spare, states.count)
		t.step(i)
		if p.watch != nil {
			p.watch(float64(states.count))
		}
		if !whole && i+1 < p.gram.interior && i+1 < t.joint && i >= 2*b {
			if run.add(t.slice[i], t.slice[i+1], t.exp2[i]-t.exp2[i+1]) >= b {
				if t.settleSteady(i, run); p.warm {
					i = b // and down from b-1, where participations before the first step are missing
					continue
				}
				break
			}
		}
	}
	t.walkable = fits(n+1) || t.steady >= 3*b && n >= steadySteps*b && fits(2*b+4)
	if keep && !whole && t.steady < 0 {
		return nil, tooLarge(theta, p, maxBytes)
	}
	if t.steady >= 0 && keep {
		t.measureJoint()
	}
	if p.warm {
		t.startWarm()
	} else {
		t.lnN = t.level(0, false).log(0)
	}
	if math.IsNaN(t.lnN) || math.IsInf(t.lnN, 0) {
		return nil, fmt.Errorf("%w: order %d: the sums leave the range of float64", ErrTable, theta)
	}
	return t, nil
}

func tooLarge(theta int, p process, maxBytes int) error {
	return fmt.Errorf("%w: order %d at %d steps and min-sep %d takes more than %.3g MB", ErrTable, theta, p.steps, p.sep, float64(maxBytes)/(1<<20))
}

// tryStates refuses state spaces that no table could hold, before they are made.
func tryStates(theta, sep, maxBytes int) (*states, error) {
	if sep > math.MaxUint16 {
		return nil, fmt.Errorf("%w: min-sep %d is above %d", ErrTable, sep, math.MaxUint16)
	}
	count := countStates(theta, sep)
	if count*float64(sep+2)*8 > float64(maxBytes) {
		return nil, fmt.Errorf("%w: order %d at min-sep %d has %.3g states", ErrTable, theta, sep, count)
	}
	return newStates(theta, sep), nil
}

// countStates is C(b+θ-2, θ-1).
func countStates(theta, sep int) float64 {
	count := 1.0
	for k := 1; k < theta; k++ {
		count *= float64(sep+k-1) / float64(k)
	}
	return count
}

func take(spare [][]float64, size int) (slice []float64, rest [][]float64) {
	if last := len(spare) - 1; last >= 0 {
		return spare[last], spare[:last]
	}
	return make([]float64, size), spare
}

// prepare sets the constants of step i: γ by remaining blocked steps and Binom(m,p)(j) e^{j(j-1)/2
// ‖c_i‖²/σ²}.
func (t *table) prepare(i int) {
	t.gram.row(t.row, i)
	t.gamma[0] = 1
	for r := 1; r < t.sep; r++ {
		if t.gamma[r] = 1; t.row[t.sep-r] != 0 { // columns as far apart as the bands do not overlap
			t.gamma[r] = math.Exp(t.row[t.sep-r])
		}
	}
	for m, coef := range t.coef {
		for j := range coef {
			coef[j] = binomial(m, j, t.prob) * math.Exp(float64(j*(j-1)/2)*t.row[0])
		}
	}
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

// step computes slice i from the later ones (F5.3).
func (t *table) step(i int) {
	t.prepare(i)
	t.exp2[i], t.ln[i] = t.exp2[i+1], t.ln[i+1]
	for lag := 1; lag <= t.sep; lag++ {
		next := t.level(min(i+lag, t.steps), false)
		t.ahead[lag], t.factor[lag] = next.slice, next.over(level{exp2: t.exp2[i], ln: t.ln[i]})
	}
	t.apply(t.slice[i])
	if top := t.slice[i][0]; top > 1e60 {
		_, shift := math.Frexp(top)
		for s := range t.slice[i] {
			t.slice[i][s] = math.Ldexp(t.slice[i][s], -shift)
		}
		t.exp2[i] += shift
	}
}

// apply evaluates F5.3 for all states with the prepared constants.
func (t *table) apply(dst []float64) {
	if t.states.theta == 3 {
		t.triples(dst)
		return
	}
	for i := range t.states.list {
		t.state(i, dst)
	}
}

// state evaluates F5.3 for the i-th state of the list.
func (t *table) state(i int, dst []float64) {
	k := t.states.theta - 1
	gamma := 1.0
	for _, r := range t.states.listed[i*k : i*k+k] {
		gamma *= t.gamma[r]
	}
	st := t.states.list[i]
	m := int(st.free)
	coef, mv := t.coef[m], t.states.moves[st.first:int(st.first)+m+1]
	sum := coef[0] * t.factor[1] * t.ahead[1][mv[0].number]
	power := gamma
	for j := 1; j <= m; j++ {
		to := mv[j]
		sum += coef[j] * power * t.factor[to.lag] * t.ahead[to.lag][to.number]
		power *= gamma
	}
	dst[st.number] = sum
}

// tile is how many rows of a slice triples computes together: neighbours by c are neighbours where
// they read a later slice, and so many rows stay in the cache.
const tile = 32

// triples evaluates F5.3 for all states of order 3: the same values in a third of the time. State
// (c, d), d ≤ c, has the number c(c+1)/2 + d. Nearly all have one free replica. When it takes part,
// the next one is free after d steps, in state (b-d, c-d).
func (t *table) triples(dst []float64) {
	for _, i := range t.states.several {
		t.state(i, dst)
	}
	b := t.sep
	first := func(c int) int { return c * (c + 1) / 2 }
	none, one := t.coef[1][0]*t.factor[1], t.coef[1][1]
	for d := 1; d < b; d++ {
		t.rows[d] = t.ahead[d][first(b-d):]
	}
	next := t.ahead[1]
	for from := 1; from < b; from += tile {
		to := min(from+tile, b)
		for d := 1; d < to; d++ {
			c := max(from, d)
			row, gamma, factor := t.rows[d][c-d:to-d], t.gamma[c:to], t.factor[d]
			mine, at := t.gamma[d], first(c)+d // from is at - c - 1
			for i, x := range row {
				dst[at] = none*next[at-c-1] + one*(gamma[i]*mine)*factor*x
				c++
				at += c
			}
		}
	}
}

// at returns the slice that stands for step i.
func (t *table) at(i int) []float64 {
	if s := t.slice[i]; s != nil {
		return s
	}
	return t.u
}

// level is one step's slice and scale.
type level struct {
	slice []float64
	exp2  int
	ln    float64
}

// level returns V_i, or with endless what a run without end has in its place.
func (t *table) level(i int, endless bool) level {
	if endless && i >= t.joint {
		return level{t.u, t.exp2[t.steady], float64(t.steady-i) * t.logRate}
	}
	return level{t.at(i), t.exp2[i], t.ln[i]}
}

// over is the scale of a over that of b.
func (a level) over(b level) float64 {
	if a.ln == b.ln && a.exp2 == b.exp2 {
		return 1
	}
	return math.Ldexp(math.Exp(a.ln-b.ln), a.exp2-b.exp2)
}

// log returns the logarithm of one value.
func (a level) log(state int) float64 {
	return math.Log(a.slice[state]) + float64(a.exp2)*math.Ln2 + a.ln
}

// steadyRun measures the ratio of successive slices over a run of steps.
type steadyRun struct {
	lo, hi float64
	length int
}

// add takes the next step of the run and returns the length of the run; a spread above the
// tolerance ends it.
func (r *steadyRun) add(slice, after []float64, exp2 int) int {
	if r.length == 0 {
		r.lo, r.hi = math.Inf(1), 0
	}
	for s := range slice {
		q := slice[s] / after[s]
		if q < r.lo || q > r.hi {
			r.lo, r.hi = min(r.lo, q), max(r.hi, q)
			if exp2 != 0 || r.hi > r.lo*(1+steadyTolerance) {
				r.length = 0
				return 0
			}
		}
	}
	r.length++
	return r.length
}

// settleSteady makes slice i stand for the earlier ones, and for the later ones up to the joint.
func (t *table) settleSteady(i int, run steadyRun) {
	t.steady, t.u, t.logRate = i, t.slice[i], math.Log(run.hi)
	t.spread = float64(i) * (run.hi/run.lo - 1)
	for k := range min(t.joint, t.steps+1) {
		t.slice[k] = nil
		t.exp2[k], t.ln[k] = t.exp2[i], float64(i-k)*t.logRate
	}
	// One more step from U alone: the relative error that a step of a walk through U can make.
	t.prepare(max(t.sep, i-1))
	for lag := 1; lag <= t.sep; lag++ {
		t.ahead[lag], t.factor[lag] = t.u, math.Exp(-float64(lag)*t.logRate)
	}
	again := make([]float64, len(t.u))
	t.apply(again)
	for s, x := range again {
		t.residual = max(t.residual, math.Abs(x/t.u[s]-1))
	}
}

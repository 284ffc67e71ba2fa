package tuples

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/sampling"
)

// ErrTable is wrapped by errors that say why a table of some order cannot be had: it takes too much
// memory, or its numbers leave the range of float64. A lower order may do.
var ErrTable = errors.New("no table")

// ErrStates is an [ErrTable] of more states than a table may have, which depends on no number of it.
var ErrStates = fmt.Errorf("%w: too many states", ErrTable)

// Options say how a table is made.
type Options struct {
	Keep     bool    // every slice, to draw tuples
	Block    int     // steps of a block; 0 and 1 for an exact table
	MaxBytes int     // of what is held at one time
	Whole    int     // bytes of all slices above which one stands for those far from both ends; 0 for 1 GiB
	MostWork float64 // states of all steps; 0 for no limit
	MostLogN float64 // an upper bound that is above it is of no use; 0 for none
}

// Table has the sums of the θ-tuples of patterns that begin in each state,
//
//	V_i(S) = Σ_J Pr[J takes part | S] exp(Σ_{k<l} new overlaps of the copies k, l / σ²) V_{i+1}(S_J),
//
// V = 1 after the run. N_θ = E_Q f^θ is the mean of V_0 over the starts (F5.2, F5.3). With blocks
// it is an upper bound of N_θ (F5.9). V_i is slice[i] e^scale[i] by the numbers of states. A Table
// is read-only once it is made, and may be shared.
type Table struct {
	// LnN is ln N_θ, not rounded upward.
	LnN float64
	// Rounding bounds the relative error of N_θ.
	Rounding float64
	// StepError bounds the relative error of the probability of each event of a walk.
	StepError float64
	// Bytes is about the size of the slices from which tuples are drawn, whether they are retained or
	// not.
	Bytes int
	// Work is the number of states of the steps that were computed.
	Work float64
	// Skipped is the number of steps that were not computed, since V_i is V_{i+1} times a constant.
	Skipped int

	*unrolled
	multisets
	theta   int
	gram    *likelihood.Gram
	options Options
	slice   [][]float64 // slice[n] is for all steps from n on
	scale   []float64
	units   []float64 // e^scale, to draw tuples; nil if some leave the range of float64
	starts  []float64 // see sumStarts

	made    map[*pattern]*moves // the latest ones
	known   map[place]*moves
	firsts  map[*pattern]int // the first step of each
	kept    int              // states of made
	held    int              // bytes of slices
	release [][]int          // of each step: the slices that no earlier step leads to
	spread  float64          // relative error from the steps that were not computed
	endless endless
	choices int // of a state, at most

	// Of the latest step.
	of    *moves
	row   []float64   // by age, the inner product with an earlier step
	self  []float64   // by the number of participants
	gamma []float64   // by label
	power [][]float64 // see group.weights
	coef  [][]float64 // weights by group
	ahead [][]float64
}

const (
	top        = 0x1p200 // slices with larger or, in all entries, smaller values than 1/top are scaled
	mostStates = 1 << 21 // whose moves are retained

	// exactSpread is the relative spread of V_i/V_{i+1} that counts as constant, and blockSpread is
	// that of upper bounds, over all steps.
	exactSpread = 2e-14
	blockSpread = 5e-3

	wholeBytes = 1 << 30 // see Options.Whole
)

// New makes the table of order theta ≥ 1. It ends early, with the error of ctx, if ctx is done.
func New(ctx context.Context, l *sampling.Table, g *likelihood.Gram, theta int, o Options) (*Table, error) {
	return newTable(ctx, newLaw(l), g, theta, o)
}

func newTable(ctx context.Context, l law, g *likelihood.Gram, theta int, o Options) (*Table, error) {
	o.Block = max(1, o.Block)
	u, err := unroll(ctx, l, g.Steps, g.Bands, o.Block)
	if err != nil {
		return nil, err
	}
	if Count(u.labels, theta) > math.MaxInt32/2 {
		return nil, fmt.Errorf("%w: order %d with %d labels", ErrStates, theta, u.labels)
	}
	t := &Table{unrolled: u, theta: theta, gram: g, options: o, multisets: newMultisets(theta, u.labels+1)}
	n, size := g.Steps, 1
	for _, x := range u.steps {
		size = max(size, t.stateNumbers(theta, x.pattern))
	}
	if atLeast := 8 * size * min(n, 4); atLeast > o.MaxBytes {
		return nil, t.tooLarge()
	}
	t.slice, t.scale = make([][]float64, n+1), make([]float64, n+1)
	t.slice[n] = slices.Repeat([]float64{1}, size)
	t.firsts = map[*pattern]int{}
	for i := n - 1; i >= 0; i-- {
		t.firsts[u.steps[i].pattern] = i
	}
	t.row, t.self, t.gamma = make([]float64, g.Bands), make([]float64, theta+1), make([]float64, u.labels)
	t.power, t.ahead = make([][]float64, theta+1), make([][]float64, u.labels+1)
	t.endless.joint = n + 1
	if whole := cmp.Or(o.Whole, wholeBytes); 8*size*(n+1) > whole && t.block == 1 && t.steadyPeriod() == 1 {
		t.endless.joint = n - u.reach - 1
	}
	if err := t.backward(ctx); err != nil {
		return nil, err
	}
	switch joined := t.endless.slice != nil; {
	case joined:
		t.Bytes = 8 * size * (2*u.reach + 4)
	case t.endless.joint <= n && o.Keep:
		return nil, t.tooLarge()
	case t.endless.joint <= n:
		t.Bytes = math.MaxInt // no tuples can be drawn
	}
	t.sumStarts()
	t.setUnits()
	t.Rounding = t.roundingBound()
	t.made, t.known, t.firsts, t.release, t.of = nil, nil, nil, nil, nil
	if math.IsNaN(t.LnN) || math.IsInf(t.LnN, 0) {
		return nil, fmt.Errorf("%w: order %d: the sums leave the range of float64", ErrTable, theta)
	}
	return t, nil
}

// setUnits sets units, if all are in range.
func (t *Table) setUnits() {
	for _, scale := range t.scale {
		if math.Abs(scale) > 300 {
			t.units = nil
			return
		}
		t.units = append(t.units, math.Exp(scale))
	}
}

func (t *Table) tooLarge() error {
	return fmt.Errorf(
		"%w: order %d at %d steps with %d labels takes more than %.3g MB",
		ErrTable,
		t.theta,
		t.gram.Steps,
		t.labels,
		float64(t.options.MaxBytes)/(1<<20),
	)
}

// planRelease sets which slices no earlier step leads to.
func (t *Table) planRelease() {
	n, period := t.gram.Steps, t.steadyPeriod()
	users := make([]int, n) // the first step that leads to each
	for k := range users {
		users[k] = max(0, k-max(1, period))
	}
	for i := n - 1; i >= 0; i-- {
		last := -1
		for _, wait := range t.steps[i].wait {
			if wait == last || wait >= n-i {
				continue
			}
			last = wait
			users[i+wait] = min(users[i+wait], i-1) // -1: the starts
		}
	}
	t.release = make([][]int, n)
	for k, i := range users {
		if i >= 0 {
			t.release[i] = append(t.release[i], k)
		}
	}
}

// backward computes the slices from the last one down, and releases those that no earlier step
// needs.
func (t *Table) backward(ctx context.Context) error {
	t.planRelease()
	steady := t.newSteadyRun()
	var spare [][]float64
	for i := t.gram.Steps - 1; i >= 0; i-- {
		var err error
		if spare, err = t.allocate(i, spare); err != nil {
			return err
		}
		if err := t.prepare(i); err != nil {
			return err
		}
		scaled := t.step(i)
		t.Bytes += 8 * len(t.slice[i])
		if t.Work += float64(t.of.count); t.options.MostWork > 0 && t.Work > t.options.MostWork {
			return fmt.Errorf("%w: order %d at %d steps with %d labels has more than %.3g: a strategy with at most min-sep bands has fewer",
				ErrStates, t.theta, t.gram.Steps, t.labels, t.options.MostWork)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
		if most := t.options.MostLogN; t.block > 1 && t.of.count > 0 && i%16 == 0 && t.scale[i]+math.Log(t.least(i)) > most {
			return fmt.Errorf(
				"%w: order %d in blocks of %d steps: the moment is above e^%.4g",
				ErrTable,
				t.theta,
				t.block,
				most,
			)
		}
		settled := steady.add(i, scaled)
		if !t.options.Keep || t.endless.joint <= t.gram.Steps {
			for _, k := range t.release[i] {
				if t.slice[k] != nil && (!t.options.Keep || k < t.endless.joint && t.endless.slice == nil) {
					spare, t.slice[k] = append(spare, t.slice[k]), nil
				}
			}
		}
		if settled {
			i = t.settle(i, steady)
		}
	}
	return nil
}

// steadyPeriod is the number of steps after which the recursion may be the same again, 0 if the run
// has too few of them.
func (t *Table) steadyPeriod() int {
	period := t.period()
	if 8*period > t.gram.Steps {
		return 0
	}
	return period
}

// steadyRun measures the ratio of slices a period apart over a run of steps. Steps of a period that
// is the same again are a positive, monotone and homogeneous map of the next reach slices: once lo
// ≤ V_i/V_{i+period} ≤ hi in all states at reach steps in a row, the same holds at all earlier
// ones, and hi V_{i+period} bounds V_i.
type steadyRun struct {
	t      *Table
	first  []int // of each step: the first of the steps up to it that are all like the step a period later
	spread float64
	lo, hi float64
	length int
}

func (t *Table) newSteadyRun() *steadyRun {
	n, period := t.gram.Steps, t.steadyPeriod()
	r := &steadyRun{t: t, first: make([]int, n), spread: exactSpread}
	if t.block > 1 {
		r.spread = blockSpread / float64(n)
	}
	for i := range n {
		later := i + period
		switch {
		case period == 0 || later >= t.gram.Alike() || i < t.gram.Bands-1 || !t.sameAs(i, later):
			r.first[i] = n
		case i > 0 && r.first[i-1] < n:
			r.first[i] = r.first[i-1]
		default:
			r.first[i] = i
		}
	}
	return r
}

// add takes step i into the run, and says whether earlier steps follow from the run.
func (r *steadyRun) add(i int, scaled bool) (settled bool) {
	t, later := r.t, i+r.t.steadyPeriod()
	if r.first[i] > i || scaled || t.of.ends || t.scale[i] != t.scale[later] {
		r.length = 0
		return false
	}
	if r.length == 0 {
		r.lo, r.hi = math.Inf(1), 0
	}
	after := t.slice[later]
	for s, v := range t.slice[i] {
		if v == 0 {
			continue // no state
		}
		if q := v / after[s]; q < r.lo || q > r.hi {
			if r.lo, r.hi = min(r.lo, q), max(r.hi, q); r.hi > r.lo*(1+r.spread) {
				r.length = 0
				return false
			}
		}
	}
	r.length++
	return r.length >= max(t.reach, t.steadyPeriod()) && r.first[i] < i
}

// allocate makes the slice of a step.
func (t *Table) allocate(i int, spare [][]float64) ([][]float64, error) {
	size := t.stateNumbers(t.theta, t.steps[i].pattern)
	for k := len(spare) - 1; k >= 0; k-- {
		if s := spare[k]; cap(s) >= size {
			t.slice[i] = s[:size]
			clear(t.slice[i])
			return slices.Delete(spare, k, k+1), nil
		}
	}
	if t.held += 8 * size; t.held > t.options.MaxBytes {
		return nil, t.tooLarge()
	}
	t.slice[i] = make([]float64, size)
	return spare, nil
}

// least is the least value of a state at a step, in units of e^scale.
func (t *Table) least(i int) float64 {
	least := math.Inf(1)
	for _, v := range t.slice[i] {
		if v > 0 {
			least = min(least, v)
		}
	}
	return least
}

// settle lets V_k = hi^m V_{k+m·period} for the steps before step i that are alike, and returns the
// first of them. The slices that earlier steps lead to are in one scale.
func (t *Table) settle(i int, run *steadyRun) (first int) {
	n, period, first := t.gram.Steps, t.steadyPeriod(), run.first[i]
	for k := i - 1; k >= first; k-- {
		t.slice[k], t.scale[k] = t.slice[k+period], t.scale[k+period]+math.Log(run.hi)
	}
	if t.endless.joint <= n && t.endless.slice == nil && i-first > 2*t.reach && i < t.endless.joint {
		t.join(i, math.Log(run.hi))
	}
	end := min(first+max(t.reach, period)+1, n)
	for k := end; k < n && !t.options.Keep; k++ {
		t.slice[k] = nil
	}
	for k := end - 1; k >= first; k-- {
		t.slice[k] = slices.Clone(t.slice[k])
		t.rescale(k, t.scale[first])
	}
	t.rescale(n, t.scale[first])
	if t.block == 1 {
		t.spread += float64(i-first) * (run.hi/run.lo - 1)
		t.StepError = max(t.StepError, run.hi/run.lo-1)
	}
	t.Skipped += i - first
	run.length = 0
	return first
}

// endless is V of a run without end, V_k = e^{(step-k) logRate} V_step, which stands for the slices
// up to step joint. Walks go by it, and are corrected there: see Walker.
type endless struct {
	joint   int // above the number of steps if there is none
	slice   []float64
	step    int
	scale   float64 // of the slice
	logRate float64
	accept  float64 // ln of the least κ with V ≤ κ endless V in all states that may follow step joint
}

// join lets the slice of step i stand for those up to the joint. It is not changed any more.
func (t *Table) join(i int, logRate float64) {
	e := &t.endless
	e.slice, e.step, e.scale, e.logRate, e.accept = slices.Clone(t.slice[i]), i, t.scale[i], logRate, math.Inf(-1)
	for k := e.joint; k <= e.joint+t.reach && t.options.Keep; k++ {
		high := 0.0
		for s, v := range t.slice[k] {
			if v > 0 {
				high = max(high, v/e.slice[s])
			}
		}
		e.accept = max(e.accept, math.Log(high)+t.scale[k]-e.at(k))
	}
	for k := i; k < e.joint && t.options.Keep; k++ {
		t.slice[k], t.scale[k] = e.slice, e.at(k)
	}
}

// at is the scale at a step.
func (e *endless) at(k int) float64 { return e.scale - float64(k-e.step)*e.logRate }

// prepare sets the moves and the weights of step i, which may be those of step i+1.
func (t *Table) prepare(i int) error {
	later := t.of
	v, err := t.movesOf(i)
	if err != nil {
		return err
	}
	t.of = v
	if v == later && i+1 < t.gram.Alike() && i >= t.gram.Bands-1 && t.sameAs(i, i+1) {
		return nil
	}
	t.measure(i)
	for len(t.coef) < len(v.groups) {
		t.coef = append(t.coef, nil)
	}
	for g := range v.groups {
		t.coef[g] = v.groups[g].weights(t.coef[g][:0], t.prob[i], t.self, t.power)
	}
	return nil
}

// place is a layout at a step of a period: equal ones have the same future.
type place struct {
	*layout
	step int
}

// movesOf are the moves of step i.
func (t *Table) movesOf(i int) (*moves, error) {
	x, at := t.steps[i], place{t.steps[i], i}
	if period := t.period(); period > 0 {
		at.step = i % period
	}
	if v := t.known[at]; v != nil && (v.at <= i || !v.ends) {
		return v, nil
	}
	v := t.made[x.pattern]
	if v == nil || !v.serves(t.unrolled, i) {
		step := i
		if first := newMoves(t.unrolled, t.firsts[x.pattern]); first.serves(t.unrolled, i) {
			step = first.at
		}
		if bytes := moveBytes * t.theta * t.stateNumbers(t.theta, x.pattern); t.held+bytes > t.options.MaxBytes {
			return nil, t.tooLarge()
		}
		v = makeMoves(t.unrolled, t.multisets, t.theta, step)
		for _, g := range v.groups {
			t.choices = max(t.choices, len(g.totals))
		}
		if t.kept += v.count; t.kept > mostStates || t.known == nil {
			t.made, t.known, t.kept = map[*pattern]*moves{}, map[place]*moves{}, v.count
		}
		t.made[x.pattern] = v
	}
	if v.at == i || i+v.reaches < t.gram.Steps { // else it serves because the run ends
		t.known[at] = v
	}
	return v, nil
}

// measure sets the factors of overlaps at step i by label.
func (t *Table) measure(i int) {
	t.gram.Row(t.row, i)
	for j := range t.self {
		t.self[j] = math.Exp(float64(j*(j-1)/2) * t.row[0])
	}
	for age := len(t.row) - 2; age > 0 && t.block > 1; age-- {
		t.row[age] = max(t.row[age], t.row[age+1]) // by any step of a block
	}
	x := t.steps[i]
	for y, ages := range x.ages {
		sum := 0.0
		for _, age := range ages {
			if age < len(t.row) {
				sum += t.row[age]
			}
		}
		t.gamma[y] = math.Exp(sum)
	}
	for j := range t.power {
		t.power[j] = t.power[j][:0]
		for _, y := range t.gamma[:x.free] {
			t.power[j] = append(t.power[j], math.Pow(y, float64(j)))
		}
	}
	for y := range x.free {
		t.gamma[y] = 1 // is in power
	}
}

// step computes slice i, and says whether it changed the scale.
func (t *Table) step(i int) (scaled bool) {
	n, v, theta, from := t.gram.Steps, t.of, t.theta, 0
	t.scale[i] = t.scale[i+1]
	for y := range t.ahead {
		t.ahead[y] = t.slice[n]
	}
	if i+1 < n {
		for y, wait := range t.steps[i+1].wait {
			t.ahead[y] = t.slice[n-max(0, n-i-1-wait)]
		}
	}
	most, dst, ahead, gammas := 0.0, t.slice[i], t.ahead, t.gamma
	powers := make([]float64, theta+1)
	powers[0] = 1
	for k, s := range v.states {
		gamma := 1.0
		for _, y := range v.labels[k*theta:][:theta] {
			gamma *= gammas[y]
		}
		coef := t.coef[s.group]
		to := v.to[from:][:len(coef)]
		from += len(coef)
		sum := coef[0] * ahead[to[0].lowest][to[0].number]
		if len(coef) == 2 {
			sum += coef[1] * gamma * ahead[to[1].lowest][to[1].number]
		} else {
			totals := v.groups[s.group].totals
			for j := range totals[len(totals)-1] {
				powers[j+1] = powers[j] * gamma
			}
			for c := 1; c < len(coef); c++ {
				sum += coef[c] * powers[totals[c]] * ahead[to[c].lowest][to[c].number]
			}
		}
		dst[s.number] = sum
		most = max(most, sum)
	}
	for _, list := range v.woken {
		for _, x := range list {
			dst[x[0]] = max(dst[x[0]], dst[x[1]])
		}
	}
	if most <= top && most >= 1/top || v.count == 0 {
		return false
	}
	scale := t.scale[i] + math.Log(most)
	for k := i; k <= min(i+t.reach, n-1); k++ {
		t.rescale(k, scale)
	}
	t.rescale(n, scale)
	return true
}

// rescale sets the scale of a slice.
func (t *Table) rescale(k int, scale float64) {
	factor := math.Exp(t.scale[k] - scale)
	for s := range t.slice[k] {
		t.slice[k][s] *= factor
	}
	t.scale[k] = scale
}

// roundingBound bounds the relative error of N_θ. Each step of a path through the recursion rounds
// at most 12θ+16 times, with the error of a hazard and of its complement, and once more for every
// choice above θ+1 that a sum adds up; an exponent Σ⟨Cx_j,Cx_k⟩/σ² has the relative error of a sum
// of `bands` products; columns of a pattern are gap steps apart, so that each meets at most
// 2 ceil(bands/gap) columns of another pattern.
func (t *Table) roundingBound() float64 {
	theta, n, gap := float64(t.theta), float64(t.gram.Steps), float64(t.gap)
	overlaps := theta * (theta - 1) * math.Ceil(n/gap) * math.Ceil(float64(t.gram.Bands)/gap)
	terms := float64(max(0, t.choices-t.theta-1))
	rounding := n*(12*theta+16+terms) + overlaps*t.gram.LargestNorm()*float64(t.gram.Bands+8)
	return rounding*0x1p-53 + t.spread
}

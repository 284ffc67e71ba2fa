package tilt

import "math"

// steadySteps is the least length of a run with a steady rate, in multiples of min-sep.
const steadySteps = 5

// steadyTolerance is the largest relative spread of V_i/V_{i+1}, over all states and b steps, at
// which the ratio counts as constant.
const steadyTolerance = 2e-14

// steadyRate lets one slice of a table stand for many. Far from both ends of a Toeplitz C, and
// where the law is the same at every step, the recursion is the same too, and V_i/V_{i+1} tends to
// a constant λ. The recursion is a positive linear map of the next b slices: once lo ≤
// V_i(S)/V_{i+1}(S) ≤ hi for all S at b steps in a row, the same holds at all earlier ones. So one
// slice U stands for the slices of the earlier steps: V_i ≈ hi^{steady-i} U, an upper bound within
// (hi/lo)^n. A sampler needs the later steps too. The last slices are kept, and the slices between
// are replaced by U as well. The walk corrects for U by rejection at step `joint` (see
// walker.walk).
type steadyRate struct {
	steady   int       // V_i ∝ U for i ≤ steady (with drawn starts: and i ≥ b); -1 when every step was computed
	u        []float64 // the slice U = V_steady
	logRate  float64   // ln hi
	joint    int       // first step of the kept tail; above the number of steps where all are kept
	accept   float64   // ln of the smallest factor κ with V ≤ κ Ũ over all states that can follow step joint
	spread   float64   // bound of the relative error of Σ from the steady rate
	residual float64   // largest relative difference of U from one more step of the recursion
}

// steadyRun measures the ratio of successive slices over a run of steps.
type steadyRun struct {
	lo, hi float64
	length int
}

// add takes the ratio of slice to after as the next step of the run, and returns the length of the
// run in steps. A spread above the tolerance ends the run: the length is then 0.
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
func (t *tuples) settleSteady(i int, run steadyRun) {
	t.steady, t.u, t.logRate = i, t.slice[i], math.Log(run.hi)
	t.spread = float64(i) * (run.hi/run.lo - 1)
	for k := range min(t.joint, t.steps+1) {
		t.slice[k] = nil
		t.exp2[k], t.ln[k] = t.exp2[i], float64(i-k)*t.logRate
	}
	// One more step of the recursion, from U alone, gives the relative error that a step of a walk
	// through U can make.
	i = max(t.gram.sep, i-1)
	t.prepare(i)
	for lag := 1; lag <= t.lags; lag++ {
		t.ahead[lag], t.factor[lag] = t.u, math.Exp(-float64(lag)*t.logRate)
	}
	again := make([]float64, len(t.u))
	t.apply(again, i)
	for s, x := range again {
		t.residual = max(t.residual, math.Abs(x/t.u[s]-1))
	}
}

// correction is ln V_i(S)/Ũ_i(S) at a step i of the kept tail.
func (t *tuples) correction(i, s int) float64 {
	return t.level(i, false).log(s) - t.level(i, true).log(s)
}

// measureJoint sets accept to the greatest correction that a walk can meet.
func (t *tuples) measureJoint() {
	t.accept = math.Inf(-1)
	for i := t.joint; i < t.joint+t.gram.sep; i++ {
		tail, endless := t.level(i, false), t.level(i, true)
		high := 0.0
		for s, v := range tail.slice {
			high = max(high, v/endless.slice[s])
		}
		t.accept = max(t.accept, math.Log(high*tail.over(endless)))
	}
}

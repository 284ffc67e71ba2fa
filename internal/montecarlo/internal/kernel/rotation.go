package kernel

import (
	"math"
	"slices"

	"minsep/internal/montecarlo/internal/likelihood"
)

// rotation is U_i = U_{i+1} + 2^(t_i + a_i) R_i in linear scale, where R_i is U at the next
// period's first step, or, for the last steps of a period, U at step i+w plus Σ g·2^(t+a)·R over
// the steps of the next period before i+w: likelihood.Rotation (F3.12).
//
// Range. As for chain: every U and R is looked at, when it is made and when it is divided, and a
// batch with one outside of [2^-900, 2^900] is refused. |t| ≤ limit keeps 2^(t+a) in
// [2^-maxExponent, 2^maxExponent], and g is at least 2^-maxExponent. So a product that is lost
// below the normal numbers is below 2^-1022 beside a sum of at least 2^-900: the sums of an R have
// a U among their terms.
type rotation struct {
	ratio *likelihood.Rotation
	keeps []keep    // of each crossing
	a     []float64 // log2 of Λ without t
	limit float64

	f, ahead   []Row // U and R of the rows of a block
	ones       []float64
	next, here periodStart
	near       bool   // next is still needed
	from       int    // first place that here has
	whole      [1]Row // R of the steps with columns that do not reach the next period
	sum        Row    // U of the step that was last
	log2       Row    // log2 of the divisors of the lanes
}

// periodStart holds the values of a period's first steps that the period before needs, one for each
// band.
type periodStart struct {
	u     []Row // U, and one row more
	joins []Row // 2^(t+a)·R, from row bands on; zeros before, and one row after
}

// keep is e^-⟨c_i,c_j⟩/σ² of a crossing: by rows, or by lags as in likelihood.Crossing.
type keep struct {
	rows [][]float64
	lags []float64
}

// newRotation returns nil when the ratio has no range in linear scale.
func newRotation(l *likelihood.Rotation) Recursion {
	r := &rotation{ratio: l, a: multiplied(l.Join, math.Log2E)}
	most := 0.0
	for _, a := range r.a {
		most = max(most, math.Abs(a))
	}
	if r.limit = maxExponent - 1 - most; r.limit < 20 {
		return nil
	}
	for e, crossing := range l.Crossings {
		if crossing.Lags != nil && e > 0 { // as before
			r.keeps = append(r.keeps, r.keeps[e-1])
			continue
		}
		k, ok := newKeep(crossing)
		if !ok {
			return nil
		}
		r.keeps = append(r.keeps, k)
	}
	return r.Fork()
}

// newKeep is ok if all entries are in range.
func newKeep(crossing likelihood.Crossing) (k keep, ok bool) {
	exp := func(overlaps []float64) []float64 {
		kept := make([]float64, len(overlaps))
		for v, x := range overlaps {
			kept[v] = math.Exp(-x)
		}
		return kept
	}
	if crossing.Lags != nil {
		k.lags = exp(crossing.Lags)
	} else {
		for _, row := range crossing.Rows {
			k.rows = append(k.rows, exp(row))
		}
	}
	for _, row := range append(k.rows, k.lags) {
		for _, v := range row {
			if v < leastKept {
				return k, false
			}
		}
	}
	return k, true
}

const leastKept = 0x1p-1000 // 2^-maxExponent

func (r *rotation) Fork() Recursion {
	fork := *r
	w := r.ratio.Bands
	fork.f, fork.ahead, fork.ones = nil, nil, nil
	for _, start := range []*periodStart{&fork.next, &fork.here} {
		*start = periodStart{make([]Row, w+1), make([]Row, 2*w+1)}
	}
	return &fork
}

func (r *rotation) Limit() float64 { return r.limit }

func (r *rotation) Reset() {
	r.log2, r.sum = Row{}, allOne
	r.whole[0], r.next.u[0] = r.sum, r.sum
}

func (r *rotation) Rows(first int, t []Row, check bool) bool {
	if check && !between(t, -r.limit, r.limit) {
		return false
	}
	if len(r.f) <= len(t) {
		r.f, r.ahead, r.ones = make([]Row, len(t)+1), make([]Row, len(t)), slices.Repeat([]float64{1}, len(t))
	}
	w, length := r.ratio.Bands, r.ratio.Period
	for end := len(t); end > 0; {
		last := first + end - 1
		period := last / length
		begins := period*length - first // index of the period's first step
		if places := r.ratio.Places(period); begins+places == end {
			r.enter(period)
		}
		from, reaches := max(0, begins), begins+length-w+1 // columns from there on reach the next period
		if r.near {
			from = max(from, reaches)
		}
		starts := end <= begins+w && period > 0 // the period before needs these
		if !starts && period > 0 {
			from = max(from, begins+w)
		}
		ahead := r.whole[:]
		if r.near {
			ahead = r.ahead[from:end]
			if !r.reach(ahead, r.keeps[period], begins+length-from) {
				return false
			}
		}
		if starts {
			if !r.start(t[from:end], first+from, from-begins, ahead) {
				return false
			}
		} else {
			f := r.f[from : end+1]
			f[end-from] = r.sum
			renewalRows(f, t[from:end], r.a[first+from:first+end], stayed, ahead)
			if !between(f[:end-from], 1/mostHeld, mostHeld) {
				return false
			}
			r.sum = f[0]
		}
		if r.near = r.near && from > reaches; !r.settle() {
			return false
		}
		end = from
	}
	return true
}

var (
	stayed, lost = []float64{1}, []float64{0}
	allOne       = Row{1, 1, 1, 1, 1, 1, 1, 1}
)

// enter begins a period, at its last step.
func (r *rotation) enter(period int) {
	r.next, r.here = r.here, r.next
	r.near = period < len(r.keeps) && r.ratio.Bands > 1
	if period == len(r.keeps) { // the last one: R is 1
		share := math.Exp(r.ratio.LogAbsent(period))
		for l, v := range r.whole[0] {
			r.sum[l] = share * v
		}
	} else {
		r.whole[0], r.sum = r.sum, Row{}
	}
	r.from = min(r.ratio.Bands, r.ratio.Places(period))
	for v := r.from; v < r.ratio.Bands; v++ {
		r.here.u[v] = r.sum
	}
	r.here.joins[r.ratio.Bands+r.from] = Row{}
}

// reach sets dst to R of the steps k, k-1, … before the next period.
func (r *rotation) reach(dst []Row, keep keep, k int) bool {
	w := r.ratio.Bands
	if keep.lags != nil {
		// Row k has the lags k … w-1 with the joins of places 0 … w-1-k. A few rows together begin
		// at the lag of the last of them, and meet zeros before.
		for done := 0; done < len(dst); done += 8 {
			rows := dst[done:min(done+8, len(dst))]
			least := k - done - len(rows) + 1
			correlateRows(rows, r.next.joins[w-len(rows)+1:], keep.lags[least:])
		}
	} else {
		for i := range dst {
			dst[i] = Row{}
			if row := keep.rows[k-i-1]; len(row) > 0 {
				correlateRow(&dst[i], r.next.joins[w:], row)
			}
		}
	}
	pairRow(dst, dst, r.next.u[w-k:], 0, -1, r.ones[:len(dst)], &allOne, 1)
	return between(dst, 1/mostHeld, mostHeld)
}

// start computes rows among a period's first steps, from a place on, and keeps them in here.
func (r *rotation) start(t []Row, first, place int, ahead []Row) bool {
	joins, u := r.here.joins[r.ratio.Bands+place:][:len(t)+1], r.here.u[place:][:len(t)+1]
	weights := r.a[first : first+len(t)]
	u[len(t)] = r.sum
	renewalRows(u, t, weights, stayed, ahead)
	renewalRows(joins, t, weights, lost, ahead)
	r.sum, r.from = u[0], place
	return between(u[:len(t)], 1/mostHeld, mostHeld)
}

// settle divides the lanes where the latest U has left the range, in all values that are still
// needed.
func (r *rotation) settle() bool {
	w := r.ratio.Bands
	for l, v := range r.sum {
		factor, log2 := backInRange(v)
		if log2 == 0 {
			continue
		}
		r.sum[l] *= factor
		r.log2[l] += log2
		if r.whole[0][l] *= factor; !isHeld(r.whole[0][l]) || !r.here.divide(r.from, w, l, factor) || r.near && !r.next.divide(0, w, l, factor) {
			return false
		}
	}
	return true
}

// divide multiplies a lane from a place on, and says whether it is in range.
func (s *periodStart) divide(from, bands, lane int, factor float64) bool {
	for v := from; v < bands; v++ {
		s.joins[bands+v][lane] *= factor
		if s.u[v][lane] *= factor; !isHeld(s.u[v][lane]) {
			return false
		}
	}
	return true
}

func (r *rotation) LogRatio(dst *Row) {
	logs(dst, &r.sum, &r.log2)
}

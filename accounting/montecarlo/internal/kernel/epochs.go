package kernel

import (
	"math"

	"minsep/accounting/montecarlo/internal/likelihood"
)

// epochs is f_i = q_i f_{i+1} + 2^(t_i + a_i) f_{next(i)} in linear scale: likelihood.Renewal with
// an Epoch (F3.8).
//
// Range. A lane is divided by a power of two when its latest f leaves [2^-top, 2^top]. Values
// computed before, and needed up to an epoch later, may then be anywhere: every f is looked at,
// when it is made and when it is divided, and a batch with one outside of [2^-900, 2^900] is
// refused. |t| ≤ limit keeps 2^(t+a) in [2^-maxExponent, 2^maxExponent]. So a product that is
// lost below the normal numbers is below 2^-1022 beside a sum of at least 2^-900.
type epochs struct {
	ratio *likelihood.Renewal
	b     int
	q     []float64
	a     []float64 // log2 of the weight of a jump
	limit float64

	f     []Row  // f of the rows of a block and of the b after it
	ahead []Row  // f of the b rows after the next block
	after [1]Row // f at the first step of the next epoch
	log2  Row    // log2 of the divisors of the lanes
}

// mostHeld is the largest f that is kept, and the inverse of the smallest.
const mostHeld = 0x1p900

// newEpochs returns nil when the ratio has no range in linear scale.
func newEpochs(l *likelihood.Renewal) Recursion {
	r := &epochs{ratio: l, b: l.MinSep, a: multiplied(l.Jump[0], math.Log2E), q: make([]float64, l.Steps)}
	most := 0.0
	for i, stay := range l.Stays {
		r.q[i] = math.Exp(stay)
		most = max(most, math.Abs(r.a[i]))
	}
	if r.limit = maxExponent - 1 - most; r.limit < 20 {
		return nil
	}
	return r.Fork()
}

func (r *epochs) Fork() Recursion {
	fork := *r
	fork.f, fork.ahead = nil, make([]Row, r.b)
	return &fork
}

func (r *epochs) Limit() float64 { return r.limit }

func (r *epochs) Reset() {
	r.after[0] = Row{1, 1, 1, 1, 1, 1, 1, 1}
	for i := range r.ahead {
		r.ahead[i] = r.after[0]
	}
	r.log2 = Row{}
}

func (r *epochs) Rows(first int, t []Row, check bool) bool {
	if check && !between(t, -r.limit, r.limit) {
		return false
	}
	count, length := len(t), r.ratio.Epoch
	if len(r.f) < count+r.b {
		r.f = make([]Row, count+r.b)
	}
	f := r.f[:count+r.b]
	copy(f[count:], r.ahead)
	for end := count; end > 0; {
		last := first + end - 1
		place := last % length
		if place == length-1 {
			r.after[0] = f[end]
		}
		// From place T-b+1 on an example is blocked beyond the next epoch's first step.
		from, ahead := max(0, end-place-1), r.after[:]
		if edge := length - r.b + 1; place >= edge {
			from = max(0, end-(place-edge)-1)
			ahead = f[from+r.b : end+r.b]
		}
		renewalRows(f[from:end+1], t[from:end], r.a[first+from:first+end], r.q[first+from:first+end], ahead)
		if !r.settle(f, from, end) {
			return false
		}
		end = from
	}
	copy(r.ahead, f[:r.b])
	return true
}

// isHeld is false for NaN.
func isHeld(v float64) bool { return v >= 1/mostHeld && v <= mostHeld }

// settle looks at f[from:end] and divides the lanes where the latest row has left the range, in
// all rows that are still needed.
func (r *epochs) settle(f []Row, from, end int) bool {
	if !between(f[from:end], 1/mostHeld, mostHeld) {
		return false
	}
	for l := range Lanes {
		factor, log2 := backInRange(f[from][l])
		if log2 == 0 {
			continue
		}
		for i := from; i < from+r.b; i++ {
			if f[i][l] *= factor; !isHeld(f[i][l]) {
				return false
			}
		}
		if r.after[0][l] *= factor; !isHeld(r.after[0][l]) {
			return false
		}
		r.log2[l] += log2
	}
	return true
}

func (r *epochs) LogRatio(dst *Row) {
	var sum Row
	for i, weight := range r.ratio.Start {
		w := math.Exp(weight)
		for l := range sum {
			sum[l] += float64(w * r.ahead[i][l])
		}
	}
	for l, v := range sum {
		dst[l] = math.Log(v) + r.log2[l]*math.Ln2
	}
}

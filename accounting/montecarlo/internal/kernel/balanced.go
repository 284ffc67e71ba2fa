package kernel

import (
	"math"

	"minsep/accounting/montecarlo/internal/law"
)

// classes is F_i^j = (1-η_i^j) F_{i+1}^j + η_i^j 2^(t_i + a_i) F_{i+b}^{j-1} in linear scale: law.Classes (F3.9).
//
// Range. Nothing is rescaled: F^0 is 1. Every F of a class that can be is looked at, and a batch with one outside of [2^-900, 2^900] is
// refused. |t| ≤ limit keeps η·2^(t+a) at least 2^-maxExponent. So a product that is lost below the normal numbers is below
// 2^-1022 beside a sum of at least 2^-900.
type classes struct {
	law   *law.Classes
	b     int
	stay  []float64 // 1-η, class j of step i at i·most + j-1
	join  []float64 // η
	a     []float64 // log2 e^{-‖c_i‖²/2σ²}
	limit float64

	f     []Row // F of the rows of a block and of the b after it: class j of row i at i·most + j-1
	ahead []Row // F of the b rows after the next block
}

// newClasses returns nil when the law has no range in linear scale.
func newClasses(l *law.Classes) Recursion {
	r := &classes{law: l, b: l.MinSep, a: multiplied(l.Norms, -math.Log2E/2)}
	most := 0.0
	for i, a := range r.a {
		most = max(most, -a)
		for j := 1; j <= l.Most; j++ {
			h := l.Hazard(j, i)
			r.stay, r.join = append(r.stay, 1-h), append(r.join, h)
		}
	}
	if r.limit = maxExponent - 54 - most; r.limit < 20 {
		return nil
	}
	return r.Fork()
}

func (r *classes) Fork() Recursion {
	fork := *r
	fork.f, fork.ahead = nil, make([]Row, r.b*r.law.Most)
	return &fork
}

func (r *classes) Limit() float64 { return r.limit }

func (r *classes) Reset() {
	for i := range r.ahead {
		r.ahead[i] = Row{1, 1, 1, 1, 1, 1, 1, 1}
	}
}

func (r *classes) Rows(first int, t []Row, check bool) bool {
	if check && !between(t, -r.limit, r.limit) {
		return false
	}
	count, most := len(t), r.law.Most
	if len(r.f) < (count+r.b)*most {
		r.f = make([]Row, (count+r.b)*most)
	}
	f := r.f[:(count+r.b)*most]
	copy(f[count*most:], r.ahead)
	low, high := 1.0, 1.0
	for i := count - 1; i >= 0; i-- {
		var joins Row
		for l, x := range t[i] {
			joins[l] = exp2(x + r.a[first+i])
		}
		stay, join := r.stay[(first+i)*most:][:most], r.join[(first+i)*most:][:most]
		row, next, jump := f[i*most:][:most], f[(i+1)*most:][:most], f[(i+r.b)*most:][:most]
		for j := range row {
			out, q, h := &row[j], stay[j], join[j]
			if j == 0 {
				for l := range out {
					out[l] = q*next[0][l] + h*joins[l]
				}
			} else {
				for l := range out {
					out[l] = q*next[j][l] + h*joins[l]*jump[j-1][l]
				}
			}
			for _, v := range out {
				low, high = min(low, v), max(high, v) // NaN stays
			}
		}
	}
	copy(r.ahead, f[:r.b*most])
	return isHeld(low) && isHeld(high)
}

func (r *classes) LogRatio(dst *Row) {
	top, less := r.law.Starts()
	most := r.law.Most
	for l := range dst {
		below := 1.0 // F^0
		if most > 1 {
			below = r.ahead[most-2][l]
		}
		dst[l] = math.Log(top*r.ahead[most-1][l] + less*below)
	}
}

package kernel

import (
	"math"

	"minsep/accounting/montecarlo/internal/likelihood"
)

// classes is F_i^j = (1-η_i^j) F_{i+1}^j + 2^(t_i + a_i^j) F_{i+b}^{j-1} in linear scale, a class
// after another: likelihood.Classes (F3.9).
//
// Range. Nothing is rescaled: F^0 is 1. Every F is looked at, and a batch with one outside of
// [2^-900, 2^900] is refused. |t| ≤ limit keeps 2^(t+a) in [2^-maxExponent, 2^maxExponent]. So a
// product that is lost below the normal numbers is below 2^-1022 beside a sum of at least 2^-900.
type classes struct {
	ratio *likelihood.Classes
	b     int
	limit float64
	stay  [][]float64 // 1-η, of each class from 1 on
	a     [][]float64 // log2 of η e^{-‖c_i‖²/2σ²}

	f     [][]Row // F of the rows of a block and of the b after it, of each class from 1 on
	ahead [][]Row // F of the b rows after the next block
}

// impossible stands for log2 0, where so many participations have no room: no result depends on F
// there.
const impossible = -60

// newClasses returns nil when the ratio has no range in linear scale.
func newClasses(l *likelihood.Classes) Recursion {
	r := &classes{ratio: l, b: l.MinSep}
	most := 0.0
	for j := 1; j <= l.Most; j++ {
		stay, a := make([]float64, l.Steps), make([]float64, l.Steps)
		for i := range a {
			h := l.Hazard(j, i)
			if h == 0 && i+(j-1)*l.MinSep < l.Steps {
				return nil // there is room, and log2 0 is needed
			}
			stay[i] = 1 - h
			a[i] = max(impossible, math.Log2(h)) - l.Norms[i]/2*math.Log2E
			most = max(most, -a[i])
		}
		r.stay, r.a = append(r.stay, stay), append(r.a, a)
	}
	if r.limit = maxExponent - 1 - most; r.limit < 20 {
		return nil
	}
	return r.Fork()
}

func (r *classes) Fork() Recursion {
	fork := *r
	fork.f, fork.ahead = make([][]Row, r.ratio.Most), make([][]Row, r.ratio.Most)
	for j := range fork.ahead {
		fork.ahead[j] = make([]Row, r.b)
	}
	return &fork
}

func (r *classes) Limit() float64 { return r.limit }

func (r *classes) Reset() {
	for _, ahead := range r.ahead {
		for i := range ahead {
			ahead[i] = Row{1, 1, 1, 1, 1, 1, 1, 1}
		}
	}
}

func (r *classes) Rows(first int, t []Row, check bool) bool {
	if check && !between(t, -r.limit, r.limit) {
		return false
	}
	count := len(t)
	jump := []Row{{1, 1, 1, 1, 1, 1, 1, 1}} // F^0
	for j, ahead := range r.ahead {
		if len(r.f[j]) < count+r.b {
			r.f[j] = make([]Row, count+r.b)
		}
		f := r.f[j][:count+r.b]
		copy(f[count:], ahead)
		renewalRows(f, t, r.a[j][first:first+count], r.stay[j][first:first+count], jump)
		if !between(f[:count], 1/mostHeld, mostHeld) {
			return false
		}
		copy(ahead, f)
		jump = f[r.b:]
	}
	return true
}

func (r *classes) LogRatio(dst *Row) {
	top, less := r.ratio.Starts()
	most := r.ratio.Most
	for l := range dst {
		below := 1.0 // F^0
		if most > 1 {
			below = r.ahead[most-2][0][l]
		}
		dst[l] = math.Log(top*r.ahead[most-1][0][l] + less*below)
	}
}

package kernel

import (
	"math"

	"minsep/internal/montecarlo/internal/likelihood"
)

// points is likelihood.Points in linear scale, a turn after another. A batch is refused if some F
// leaves [1/mostPoints, mostPoints].
type points struct {
	ratio      *likelihood.Points
	stay, join []float64 // of each turn: 1-p, and the weight of a participation
	limit      float64
	fan        []int32   // of each turn: how many turns up to it lead alike, see fans
	zeros      []float64 // of a piece

	f    []Row // of each turn, and of the end
	e    []Row // of a piece
	done int   // turns from here on are done
}

var allOne = Row{1, 1, 1, 1, 1, 1, 1, 1}

const (
	mostPoints  = 0x1p500
	pointsPiece = 256 // steps from one look at the range to the next
)

// newPoints returns nil when the ratio has no range in linear scale.
func newPoints(l *likelihood.Points) Recursion {
	r := &points{ratio: l, zeros: make([]float64, pointsPiece)}
	most := 0.0
	for _, t := range l.Turns {
		most = max(most, -t.Join*math.Log2E)
		r.stay, r.join = append(r.stay, math.Exp(t.Stay)), append(r.join, math.Exp(t.Join))
	}
	if r.limit = maxExponent - 1 - most; r.limit < 20 {
		return nil
	}
	r.limit = min(r.limit, 400) // a product of two values and a weight stays in range
	r.fans()
	return r.Fork()
}

// fans counts the turns up to each one of a step that have one probability and lead to one turn if
// the example takes part, and to turns in a row if it does not.
func (r *points) fans() {
	r.fan = make([]int32, len(r.stay))
	turns := r.ratio.Turns
	for k := range turns {
		r.fan[k] = 1
		if k == 0 {
			continue
		}
		x, y := &turns[k-1], &turns[k]
		if x.Step == y.Step && x.Stay == y.Stay && x.In == y.In && x.Out == y.Out-1 {
			r.fan[k] += r.fan[k-1]
		}
	}
}

func (r *points) Fork() Recursion {
	fork := *r
	fork.f, fork.e = make([]Row, len(r.stay)+1), make([]Row, pointsPiece)
	return &fork
}

func (r *points) Limit() float64 { return r.limit }

func (r *points) Reset() {
	r.done = len(r.stay)
	r.f[r.done] = allOne
}

func (r *points) Rows(first int, t []Row, check bool) bool {
	if check && !between(t, -r.limit, r.limit) {
		return false
	}
	for end := len(t); end > 0; {
		from, last := max(0, end-pointsPiece), r.done
		r.take(first+from, t[from:end])
		if !between(r.f[r.done:last], 1/mostPoints, mostPoints) {
			return false
		}
		end = from
	}
	return true
}

// take takes some steps, the last one first.
func (r *points) take(first int, t []Row) {
	exp2Rows(r.e[:len(t)], t, r.zeros[:len(t)])
	for i := len(t) - 1; i >= 0; i-- {
		for r.done > 0 && r.ratio.Turns[r.done-1].Step == first+i {
			last := r.done
			r.done -= int(r.fan[last-1])
			x := &r.ratio.Turns[r.done]
			pairRow(r.f[r.done:last], r.f[x.Out:], r.f[x.In:], 0, 0, r.join[r.done:last], &r.e[i], r.stay[r.done])
		}
	}
}

func (r *points) LogRatio(dst *Row) {
	var sum Row
	for k, at := range r.ratio.Starts {
		for l, v := range r.f[at] {
			sum[l] += float64(r.ratio.Probs[k] * v)
		}
	}
	for l, v := range sum {
		dst[l] = math.Log(v)
	}
}

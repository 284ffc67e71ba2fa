package kernel

import (
	"math"

	"minsep/internal/montecarlo/internal/likelihood"
)

// points is likelihood.Points in linear scale, a turn after another. A batch is refused if some F
// leaves [1/mostPoints, mostPoints].
type points struct {
	ratio *likelihood.Points
	join  []float64 // of each turn: the weight of a participation
	fans  []fan
	limit float64

	f    []Row // of each turn, and of the end
	e    []Row // of a piece
	left int   // fans that are not done, the first ones
}

// fan is some turns of a step, from one on, that have one probability, lead to turns in a row if the
// example does not take part, and to turns equally far apart if it does: all of later steps.
type fan struct {
	step, at, count, out, in, apart int32
	stay                            float64 // 1-p
}

var allOne = Row{1, 1, 1, 1, 1, 1, 1, 1}

const (
	mostPoints  = 0x1p500
	pointsPiece = 256 // steps from one look at the range to the next
)

// newPoints returns nil when the ratio has no range in linear scale.
func newPoints(l *likelihood.Points) *points {
	r := &points{ratio: l}
	most := 0.0
	for k, t := range l.Turns {
		most = max(most, -t.Join*math.Log2E)
		r.join = append(r.join, math.Exp(t.Join))
		r.addTurn(k)
	}
	if r.limit = maxExponent - 1 - most; r.limit < 20 {
		return nil
	}
	r.limit = min(r.limit, 400) // a product of two values and a weight stays in range
	return r.fork()
}

// addTurn adds a turn to the last fan, or as a fan of its own.
func (r *points) addTurn(k int) {
	x := &r.ratio.Turns[k]
	alone := fan{int32(x.Step), int32(k), 1, int32(x.Out), int32(x.In), 0, math.Exp(x.Stay)}
	if last := len(r.fans) - 1; last >= 0 {
		y := &r.fans[last]
		leaves := int(y.in) == len(r.ratio.Turns) || r.ratio.Turns[y.in].Step > x.Step // both ways do, or none
		fits := leaves && y.step == alone.step && y.stay == alone.stay && y.out+y.count == alone.out
		apart := alone.in - y.in - y.apart*(y.count-1)
		if fits && (y.count == 1 || apart == y.apart) {
			y.count, y.apart = y.count+1, apart
			return
		}
	}
	r.fans = append(r.fans, alone)
}

// fork has an output of its own.
func (r *points) fork() *points {
	fork := *r
	fork.f, fork.e = make([]Row, len(r.join)+1), make([]Row, pointsPiece)
	return &fork
}

func (r *points) reset() {
	r.left = len(r.fans)
	r.f[len(r.join)] = allOne
}

// done is the first turn that is done.
func (r *points) done() int {
	if r.left == len(r.fans) {
		return len(r.join)
	}
	return int(r.fans[r.left].at)
}

// rows takes t_i = log2(e)·⟨c_i, y⟩/σ² for the rows first … first+len(t)-1, after the later rows. With
// check, it returns false if |t| exceeds the limit, and always if an F leaves its range.
func (r *points) rows(first int, t []Row, check bool) bool {
	if check && !between(t, -r.limit, r.limit) {
		return false
	}
	for end := len(t); end > 0; {
		from, last := max(0, end-pointsPiece), r.done()
		r.take(first+from, t[from:end])
		if !between(r.f[r.done():last], 1/mostPoints, mostPoints) {
			return false
		}
		end = from
	}
	return true
}

// take takes some steps, the last one first.
func (r *points) take(first int, t []Row) {
	exp2Rows(r.e[:len(t)], t)
	for i := len(t) - 1; i >= 0; i-- {
		for r.left > 0 && int(r.fans[r.left-1].step) == first+i {
			r.left--
			x := &r.fans[r.left]
			weights := r.join[x.at : x.at+x.count]
			turnRows(r.f, int(x.at), int(x.out), int(x.in), int(x.apart), weights, &r.e[i], x.stay)
		}
	}
}

func (r *points) logRatio(dst *Row) {
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

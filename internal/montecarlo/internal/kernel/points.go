package kernel

import (
	"math"

	"minsep/internal/montecarlo/internal/likelihood"
)

// points is likelihood.Points in linear scale, a turn after another. A batch is refused if some F
// leaves [1/mostPoints, mostPoints].
type points struct {
	ratio            *likelihood.Points
	stay, log2, join []float64   // of each turn: 1-p, and log2 of the weight of a participation, and this weight
	runs             []pointsRun // by step
	limit            float64
	fan              []int32   // of each turn: how many turns up to it lead alike, see fans
	zeros            []float64 // of a piece

	f    []Row // of each turn, and of the end
	e    []Row // of a piece
	done int   // turns from here on are done
	run  int   // that the next step belongs to
}

// pointsRun is steps of one turn each, which all lead to the turn one or, without it, to a turn lag
// turns ahead; or, with many, any steps.
type pointsRun struct {
	from, to int
	many     bool
	one      int // -1 for none
	lag      int
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
		log2 := t.Join * math.Log2E
		most = max(most, -log2)
		r.stay, r.log2, r.join = append(
			r.stay,
			math.Exp(t.Stay),
		), append(
			r.log2,
			log2,
		), append(
			r.join,
			math.Exp(t.Join),
		)
	}
	if r.limit = maxExponent - 1 - most; r.limit < 20 {
		return nil
	}
	r.limit = min(r.limit, 400) // a product of two values and a weight stays in range
	for k, i := 0, 0; i < l.Steps; i++ {
		next := k
		for next < len(l.Turns) && l.Turns[next].Step == i {
			next++
		}
		r.extend(r.runOf(i, k, next))
		k = next
	}
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

// runOf is the run of one step, with the turns from k to next.
func (r *points) runOf(step, k, next int) pointsRun {
	run := pointsRun{from: step, to: step + 1, one: -1, many: true}
	turns := r.ratio.Turns
	if next != k+1 || turns[k].Out != k+1 && r.stay[k] > 0 {
		return run
	}
	run.many = false
	in := turns[k].In
	leadsToo := func(other int) bool { return other >= 0 && other < len(turns) && turns[other].In == in }
	if in == len(turns) || leadsToo(k-1) || leadsToo(next) {
		run.one = in
	} else {
		run.lag = in - k
	}
	return run
}

// extend adds the run of the next step, to the last run if they are alike.
func (r *points) extend(x pointsRun) {
	if last := len(r.runs) - 1; last >= 0 {
		y := &r.runs[last]
		if y.many == x.many && y.one == x.one && y.lag == x.lag {
			y.to = x.to
			return
		}
	}
	r.runs = append(r.runs, x)
}

func (r *points) Fork() Recursion {
	fork := *r
	fork.f, fork.e = make([]Row, len(r.stay)+1), make([]Row, pointsPiece)
	return &fork
}

func (r *points) Limit() float64 { return r.limit }

func (r *points) Reset() {
	r.done, r.run = len(r.stay), len(r.runs)-1
	r.f[r.done] = allOne
}

func (r *points) Rows(first int, t []Row, check bool) bool {
	if check && !between(t, -r.limit, r.limit) {
		return false
	}
	for end := len(t); end > 0; {
		x := &r.runs[r.run]
		from := max(0, x.from-first, end-pointsPiece)
		last := r.done
		if x.many {
			r.takeMany(first+from, t[from:end])
		} else {
			r.takeOne(x, t[from:end])
		}
		if !between(r.f[r.done:last], 1/mostPoints, mostPoints) {
			return false
		}
		if first+from == x.from {
			r.run--
		}
		end = from
	}
	return true
}

// takeOne takes steps of one turn each.
func (r *points) takeOne(x *pointsRun, t []Row) {
	last := r.done
	r.done -= len(t)
	ahead := r.f[r.done+x.lag:][:len(t)]
	if x.one >= 0 {
		ahead = r.f[x.one:][:1]
	}
	renewalRows(r.f[r.done:last+1], t, r.log2[r.done:last], r.stay[r.done:last], ahead)
}

// takeMany takes steps of any number of turns.
func (r *points) takeMany(first int, t []Row) {
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

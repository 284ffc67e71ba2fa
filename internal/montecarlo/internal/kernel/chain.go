package kernel

import (
	"math"

	"minsep/internal/montecarlo/internal/law"
	"minsep/internal/montecarlo/internal/likelihood"
)

// chain is F_i = (1-η_i) F_{i+1} + 2^(t_i + a_i) F_{next(i)} in linear scale, a row after another:
// likelihood.Chain.
//
// Range. With one free label, a lane is divided by a power of two when the latest F of a piece of
// rows leaves [2^-top, 2^top]. With several, lanes are not divided. Earlier values are needed up to
// `reach` steps later, and may then have any size. So every F is looked at when it is made and when
// it is divided, and a batch with an F outside of [2^-900, 2^900] is refused. Where F falls by less
// than 2^top in a piece, since F_i ≥ (1-η) F_{i+1}, a look at the latest F covers the others in the
// piece: it must be in [2^-800, 2^800]. |t| ≤ limit keeps 2^(t+a) in [2^-maxExponent,
// 2^maxExponent], and also 2^(mt) for m terms. So a product that is lost below the normal numbers
// is below 2^-1022 beside a sum of at least 2^-900.
type chain struct {
	ratio  *likelihood.Chain
	rows   []chainRow
	starts []float64 // probabilities
	reach  int       // rows beyond a block that are needed, at least 1
	piece  int       // rows from one look at the range to the next, at most
	calm   bool      // F falls by less than 2^top in a piece
	ends   int       // no step before this one needs done
	limit  float64

	done [1]Row // F of an example that never takes part any more, and after the run
	log2 Row    // log2 of the divisors of the lanes
}

// chainRow is a row of a chain from 1 on.
type chainRow struct {
	stay    []float64   // 1-η
	a       []float64   // log2 of η e^{-‖c_i‖²/2σ²}, or of one term
	weights [][]float64 // of the terms at each step, where there are several
	runs    []run

	run   int    // that the next step belongs to
	kept  []Row  // F, needed from begin on
	begin int    // of f in kept
	f     []Row  // F of a block and the rows beyond
	held  [1]Row // F at the step that all of a run lead to
}

// run is successive steps that all lead to one step, or each to a step lag steps ahead.
type run struct {
	from, to int
	row      int  // that they lead to
	one      bool // they lead to one step
	open     bool // the run has one step so far, and may become either
	lag      int  // of the last step
}

const (
	// leastPiece is the least piece, in rows from one look at the range to the next.
	leastPiece = 32
	// top is log2 of the values that are divided.
	top = 100
	// maxRange is a bound of log2 of the values of [pair] and [owner].
	maxRange = 1000
	// mostHeld is the largest F that is kept, and the inverse of the smallest.
	mostHeld = 0x1p900
	// impossible stands for log2 0 where no example comes: no result depends on F there.
	impossible = -60
)

// newChain returns nil when the ratio has no range in linear scale, or leads to a later row.
func newChain(l *likelihood.Chain) Recursion {
	r := &chain{ratio: l, reach: 1, ends: l.Steps}
	free, most := l.Free(), 0.0
	for row := 1; row < l.Rows; row++ {
		x := chainRow{stay: make([]float64, l.Steps), a: make([]float64, l.Steps), runs: runsOf(l.Chain, row)}
		for i, norm := range l.Norms() {
			turn, h := l.Turn(row, i), l.Hazard(row, i)
			if int(turn.Row) > row || h == 0 && free[row][i] > 0 {
				return nil
			}
			// Samples have the bits of these two forms.
			if l.One {
				x.stay[i], x.a[i] = math.Exp(turn.Out), math.Log2E*(max(impossible, turn.In)-norm/2)
			} else {
				x.stay[i], x.a[i] = 1-h, max(impossible, math.Log2(h))-norm/2*math.Log2E
			}
			if l.Terms != nil {
				x.stay[i], x.a[i] = math.Exp(l.Terms[0][i]), math.Log2E*l.Terms[1][i]
			}
			most = max(most, -x.a[i])
		}
		for i := 0; len(l.Terms) > 2 && i < l.Steps; i++ {
			weights := make([]float64, len(l.Terms)-1)
			for m := range weights {
				log := l.Terms[m+1][i]
				if weights[m] = math.Exp(log); !math.IsInf(log, -1) {
					most = max(most, -math.Log2E*log)
				}
			}
			x.weights = append(x.weights, weights)
		}
		for _, run := range x.runs {
			if run.row > 0 && run.from+run.lag < l.Steps {
				r.reach = max(r.reach, run.lag)
			} else {
				r.ends = min(r.ends, run.from)
			}
		}
		r.rows = append(r.rows, x)
	}
	for _, s := range l.Starts {
		prob := s.Prob
		if l.One {
			prob = math.Exp(s.LogProb())
		}
		r.starts = append(r.starts, prob)
		if at := l.At(s.Then, 0); s.Row > 0 && at < l.Steps {
			r.reach = max(r.reach, at+1)
		} else {
			r.ends = 0
		}
	}
	if r.limit = (maxExponent - 1 - most) / float64(max(1, len(l.Terms)-1)); r.limit < 20 {
		return nil
	}
	r.piece = max(leastPiece, r.reach)
	r.calm = l.One && l.Alike && len(r.rows) == 1 && -math.Log2(r.rows[0].stay[0])*float64(r.piece) < top
	return r.Fork()
}

// runsOf cuts the steps of a row into runs. With several kinds of steps, a run that begins with a
// step of kind 0 leads to one step.
func runsOf(c *law.Chain, row int) (runs []run) {
	for i := range c.Steps {
		then, last := c.Turn(row, i).Then, len(runs)-1
		kind, kinds := c.Law.Kind(i)
		begins := kinds > 1 && kind == 0
		if last >= 0 && int(then.Row) == runs[last].row && !begins {
			x := &runs[last]
			falls := int(then.Ahead) == x.lag-1
			if (falls || int(then.Ahead) == x.lag) && (x.open || falls == x.one) {
				x.to, x.one, x.lag, x.open = i+1, falls, int(then.Ahead), false
				continue
			}
		}
		runs = append(runs, run{from: i, to: i + 1, row: int(then.Row), one: begins, open: !begins, lag: int(then.Ahead)})
	}
	return runs
}

func (r *chain) Fork() Recursion {
	fork := *r
	fork.rows = append([]chainRow(nil), r.rows...)
	for j := range fork.rows {
		fork.rows[j].kept, fork.rows[j].f = make([]Row, r.reach), nil
	}
	return &fork
}

func (r *chain) Limit() float64 { return r.limit }

func (r *chain) Reset() {
	r.done[0], r.log2 = allOne, Row{}
	for j := range r.rows {
		x := &r.rows[j]
		x.run = len(x.runs) - 1
		x.begin = len(x.kept) - r.reach
		x.f = x.kept[x.begin:]
		for i := range x.f {
			x.f[i] = allOne
		}
	}
}

// makeRoom makes room for a block of count rows before the rows f. The first `reach` rows of f are
// still needed, and stay where they are as long as there is room before them: with a long reach,
// copies of them would take most of the time.
func (x *chainRow) makeRoom(count, reach int) {
	if x.begin < count {
		kept := x.kept
		if len(kept) < count+reach {
			kept = make([]Row, count+max(count, reach)+reach)
		}
		copy(kept[len(kept)-reach:], x.f[:reach])
		x.kept, x.begin = kept, len(kept)-reach
	}
	x.begin -= count
	x.f = x.kept[x.begin : x.begin+count+reach]
}

func (r *chain) Rows(first int, t []Row, check bool) bool {
	if check && !between(t, -r.limit, r.limit) {
		return false
	}
	count := len(t)
	for j := range r.rows {
		x := &r.rows[j]
		x.makeRoom(count, r.reach)
		for end := count; end > 0; {
			run := &x.runs[x.run]
			if first+end == run.to && run.one {
				x.held[0] = *r.at(run.row, first, run.to-1+run.lag)
			}
			from := max(0, run.from-first, end-r.piece)
			x.rows(t[from:end], first, from, r.next(x, run, from, end))
			if !r.settle(x, run, from, end, first+from >= r.ends) {
				return false
			}
			if first+from == run.from {
				x.run--
			}
			end = from
		}
	}
	return true
}

// rows makes F of the len(t) rows of a block from row from on.
func (x *chainRow) rows(t []Row, first, from int, ahead []Row) {
	f, at, end := x.f[from:from+len(t)+1], first+from, first+from+len(t)
	if x.weights == nil {
		renewalRows(f, t, x.a[at:end], x.stay[at:end], ahead)
		return
	}
	jump, jumps := len(ahead)-1, min(1, len(ahead)-1)
	for i := len(t) - 1; i >= 0; i-- {
		for l, v := range t[i] {
			v, sum := exp2(v), 0.0
			for m := len(x.weights[at+i]) - 1; m >= 0; m-- {
				sum = (sum + x.weights[at+i][m]) * v
			}
			f[i][l] = math.FMA(x.stay[at+i], f[i+1][l], sum*ahead[jump][l])
		}
		jump -= jumps
	}
}

// at is F of a row at a step of the block that begins with first, or beyond it.
func (r *chain) at(row, first, step int) *Row {
	if row == 0 || step >= r.ratio.Steps {
		return &r.done[0]
	}
	return &r.rows[row-1].f[step-first]
}

// next returns the F to which the steps from … end-1 of a run lead: one row for all, or one row
// each.
func (r *chain) next(x *chainRow, run *run, from, end int) []Row {
	switch {
	case run.row == 0 || run.from+run.lag >= r.ratio.Steps:
		return r.done[:]
	case run.one:
		return x.held[:]
	}
	return r.rows[run.row-1].f[from+run.lag : end+run.lag]
}

// isHeld is false for NaN.
func isHeld(v float64) bool { return v >= 1/mostHeld && v <= mostHeld }

// settle looks at f[from:end], and divides the lanes in which the latest row has left the range: in
// all rows that are still needed, and in r.done. It returns false where a value is out of range.
// done says that r.done is still needed.
func (r *chain) settle(x *chainRow, run *run, from, end int, done bool) bool {
	seen, most := x.f[from:end], mostHeld
	if r.calm {
		seen, most = seen[:1], mostHeld*smallest
	}
	if !between(seen, 1/most, most) {
		return false
	}
	for l := 0; l < Lanes && r.ratio.One; l++ {
		factor, log2 := backInRange(x.f[from][l])
		if log2 == 0 {
			continue
		}
		for i := from; i < from+r.reach; i++ {
			if x.f[i][l] *= factor; !isHeld(x.f[i][l]) {
				return false
			}
		}
		r.done[0][l] *= factor
		if run.one {
			x.held[0][l] *= factor
		}
		if done && !isHeld(r.done[0][l]) || run.one && !isHeld(x.held[0][l]) {
			return false
		}
		r.log2[l] += log2
	}
	return true
}

func (r *chain) LogRatio(dst *Row) {
	var sum Row
	for i, prob := range r.starts {
		s := r.ratio.Starts[i].Then
		from := &r.done[0]
		if at := r.ratio.At(s, 0); s.Row > 0 && at < r.ratio.Steps {
			from = &r.rows[s.Row-1].f[at]
		}
		for l := range sum {
			sum[l] += float64(prob * from[l])
		}
	}
	logs(dst, &sum, &r.log2)
}

// backInRange returns the power of two to multiply v > 0 with, and log2 of its inverse, when v has
// left [2^-top, 2^top]; else 1 and 0.
func backInRange(v float64) (factor, log2 float64) {
	if v <= 1/smallest && v >= smallest {
		return 1, 0
	}
	e := math.Ilogb(v)
	return math.Ldexp(1, -e), float64(e)
}

const smallest = 1.0 / (1 << 50) / (1 << 50) // 2^-top

// logs sets dst to the logarithms of values times 2^log2.
func logs(dst, values, log2 *Row) {
	for l, v := range values {
		dst[l] = math.Log(v) + log2[l]*math.Ln2
	}
}

package tilt

import (
	"fmt"
	"math"
	"sort"

	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/internal/kernel"
	"minsep/accounting/montecarlo/internal/law"
	"minsep/accounting/montecarlo/internal/likelihood"
)

// couples bounds the V of F5.3 and F5.5k from above for any order θ by a table of two replicas
// (F5.12). U_i(a,b) is the V of order 2 of labels a and b before step i with overlaps θ-1 times as
// large, and
//
//	V̂_i(S) = Π_{j<k} U_i(S_j, S_k)^{1/(θ-1)},   N̂_θ = N_2^{θ/2} of these overlaps.
//
// The loss of V̂ comes from Hölder's inequality. It is small where the overlap of two replicas
// varies little, as with many participations and much noise.
type couples struct {
	table *tuples // of order 2, with every slice
	theta int
	lnN   float64

	// By label.
	number []int // of a free one among them, -1 for others
	wait   []int // the steps until it is free, in which it counts down
	age    []int
	taken  []int // of a free one, the label at the next step of who takes part

	overlap [][]float64 // by step i and d below the bands: e^{(θ-1)⟨c_{i-d},c_i⟩/σ²}
	starts  []float64   // by start: the mean of U before the first step over the other's starts

	// By number of a free label, and by step: busy bounds the probability that a replica with the
	// label takes part or ends its walk at the step, and sums has Σ -ln(1 - busy) of the steps before.
	busy, sums [][]float64
}

// newCouples makes the table of an order, at least 2; with keep tuples can be drawn from it, else
// only lnN is good. factor is 1/σ².
func newCouples(l law.Law, steps, theta int, columns *likelihood.Columns, sep int, factor float64, keep bool) (*couples, error) {
	r := room{keep: keep, maxBytes: maxTableBytes, state: stateBytes, passing: min(sep+2, steps+1)}
	table, err := newTuples(l, steps, 2, newGram(columns, sep, float64(theta-1)*factor), r)
	if err != nil {
		return nil, fmt.Errorf("couples of order %d: %w", theta, err)
	}
	p := &couples{table: table, theta: theta, lnN: table.lnN * float64(theta) / 2}
	if keep {
		p.prepareLabels()
		p.prepareOverlaps()
		p.prepareBusy()
	}
	return p, nil
}

func (p *couples) prepareLabels() {
	t := p.table
	for label := range t.law.Labels() {
		number, taken := -1, label
		if t.isFree[label] {
			number, taken = t.freeIndex(label), t.law.Enter(label, 0, true)
		}
		p.number, p.taken = append(p.number, number), append(p.taken, taken)
		p.wait, p.age = append(p.wait, t.law.FreeAt(label, 0)), append(p.age, t.law.Age(label))
	}
	for _, a := range t.label {
		mean := 0.0
		for k, b := range t.label {
			mean += t.prob[k] * p.at(0, a, b)
		}
		p.starts = append(p.starts, mean)
	}
}

func (p *couples) prepareOverlaps() {
	g := p.table.gram
	row, bands := make([]float64, g.sep), g.columns.Bands
	for i := range p.table.steps {
		if i < g.interior && i >= bands {
			p.overlap = append(p.overlap, p.overlap[i-1])
			continue
		}
		g.row(row, i)
		overlap := make([]float64, bands)
		for t, x := range row[:bands] {
			overlap[t] = math.Exp(x)
		}
		p.overlap = append(p.overlap, overlap)
	}
}

// surely stands for -ln(1-p) at p = 1: it is above -ln of any random number.
const surely = 50

// prepareBusy bounds the probability that a replica with a free label takes part or ends its walk.
// With W for U after the step where the replica does not take part, and W′ where it does, the
// probability is at most 1 - (1-η)/((1-η) + η max W′/W). The maximum is over the labels of another
// replica, and over both choices of that one.
func (p *couples) prepareBusy() {
	t := p.table
	for _, label := range t.free {
		busy, sums := make([]float64, t.steps), make([]float64, t.steps+1)
		for i := range t.steps {
			h, most := t.law.Hazard(label, i), 0.0
			if h > 0 && h < 1 {
				for other := range p.number {
					most = max(most, p.overlapOf(i, other)*p.at(i+1, p.taken[label], p.passed(other, 1))/p.at(i+1, label, p.passed(other, 1)))
					if p.number[other] >= 0 && t.law.Hazard(other, i) > 0 {
						most = max(most, p.overlap[i][0]*p.at(i+1, p.taken[label], p.taken[other])/p.at(i+1, label, p.taken[other]))
					}
				}
				h = min(1, h*most/(1-h+h*most)*upward)
			}
			busy[i] = h
			sums[i+1] = sums[i] + min(surely, -math.Log1p(-h))
		}
		p.busy, p.sums = append(p.busy, busy), append(p.sums, sums)
	}
}

// passed is a label after a number of steps without participation.
func (p *couples) passed(label, steps int) int { return label - min(steps, p.wait[label]) }

// overlapOf is e to θ-1 times the overlap of the column of a step and the last column of a replica
// that has the label before the step.
func (p *couples) overlapOf(step, label int) float64 {
	if age := p.age[label]; age > 0 && age < len(p.overlap[step]) {
		return p.overlap[step][age]
	}
	return 1
}

// at is U of two labels before a step, in units of that step.
func (p *couples) at(step, a, b int) float64 {
	one, other := p.number[a], p.number[b]
	switch {
	case one < 0 && other < 0:
		return p.waiting(step, a, b)
	case one < 0 || other >= 0 && b < a: // a state has its lowest free label first
		one, b = other, a
	}
	return p.table.slice[step][one*p.table.rests+b]
}

// waiting is at for two labels that wait: nothing happens until one of them is free.
func (p *couples) waiting(step, a, b int) float64 {
	wait := min(p.wait[a], p.wait[b])
	next := step + wait
	if next >= p.table.steps {
		return math.Ldexp(1, -p.table.exp2[step])
	}
	x := p.at(next, a-wait, b-wait)
	if shift := p.table.exp2[next] - p.table.exp2[step]; shift != 0 {
		x = math.Ldexp(x, shift)
	}
	return x
}

func newCoupleSource(s montecarlo.Spec, columns *likelihood.Columns, order int, keep bool) (*source, error) {
	f, ok := newLawFamily(s)
	if !ok || !f.coupled() {
		return nil, fmt.Errorf("%w of couples for scheme %s", ErrTable, s.Scheme)
	}
	p, err := newCouples(f.law, s.Steps, order, columns, s.MinSep, s.Factor(), keep)
	if err != nil {
		return nil, err
	}
	return p.source(), nil
}

// source bounds the errors. Each pair has the rounding of its table. A walk has, at each step and
// for each replica, the rounding of θ-1 ratios of U, of their product and of its root. It also has
// the rounding of a difference of sums, which grow by at most `surely` a step. This rounding
// changes the probability that a step is looked at.
func (p *couples) source() *source {
	n, theta := float64(p.table.steps), float64(p.theta)
	walker := func() walk { return (&coupleWalker{couples: p, replicas: make([]replica, p.theta)}).walk }
	return &source{lnN: p.lnN, raised: theta / 2 * max(inflation, 2*p.table.roundingBound()),
		walkError: n * theta * (60 + theta + n*surely) * 0x1p-52, walker: walker}
}

// coupleWalker draws tuples by a table of couples. At a step one replica after the other
// decides to take part or not, each choice with its own probability times the ratio of V̂ after
// it to V̂ before. While only some replicas have decided, the factors of V̂ are, for a pair
// with both decided, U after the step with their overlap; for a pair with one decided, the mean
// of this over the choices of the other; and for a pair with none decided, U before the step.
// By Hölder's inequality the probabilities of a replica's two choices have a sum of at most 1.
// With the probability that is missing the walk ends without a tuple. So a tuple comes out with
// probability Π π(x_j) exp(Σ_{j<k} ⟨Cx_j,Cx_k⟩/σ²)/N̂.
//
// `busy` bounds the probability that a replica takes part or ends the walk at a step. A step is
// looked at with the probability `busy`, and the others are passed over. A walker is not safe for
// concurrent use.
type coupleWalker struct {
	*couples
	replicas []replica
}

// replica is where a replica of a walk is.
type replica struct {
	label int // before step since
	since int
	took  int // the step of its last participation; -1 before there is one
	next  int // the step that is looked at next
	start int // its number among the starts
}

// walk sets hits[:0] to a tuple, of weight 1, or ends without one: the weight then is 0.
func (w *coupleWalker) walk(hits []kernel.Hit, u *uniforms) ([]kernel.Hit, float64) {
	hits = hits[:0]
	if !w.start(u) {
		return hits, 0
	}
	for {
		r, i := 0, w.table.steps
		for s := range w.replicas {
			if next := w.replicas[s].next; next < i {
				r, i = s, next
			}
		}
		if i == w.table.steps {
			return hits, 1
		}
		x := &w.replicas[r]
		label := w.passed(x.label, i-x.since)
		stay, take := w.options(i, r, label)
		switch at := u.float64() * w.busy[w.number[label]][i]; {
		case at < take:
			if last := len(hits) - 1; last >= 0 && hits[last].Step == i {
				hits[last].Times++
			} else {
				hits = append(hits, kernel.Hit{Step: i, Times: 1})
			}
			x.label, x.since, x.took = w.taken[label], i+1, i
		case at < 1-stay:
			return hits[:0], 0
		}
		w.look(x, i+1, u)
	}
}

// look draws the step from one on that is looked at next.
func (w *coupleWalker) look(x *replica, from int, u *uniforms) {
	from = max(from, x.since+w.wait[x.label])
	x.next = w.table.steps
	if from >= w.table.steps {
		return
	}
	sums := w.sums[w.number[x.label-w.wait[x.label]]]
	limit := sums[from] - math.Log(u.float64())
	if sums[w.table.steps] > limit {
		x.next = from + sort.Search(w.table.steps-1-from, func(k int) bool { return sums[from+k+1] > limit })
	}
}

// start draws the labels before the first step, and says whether the walk goes on.
func (w *coupleWalker) start(u *uniforms) bool {
	t := w.table
	mean := 0.0 // of U over the starts of two
	for k, x := range w.starts {
		mean += t.prob[k] * x
	}
	for r := range w.replicas {
		x := &w.replicas[r]
		*x = replica{label: t.label[0], took: -1}
		if len(t.label) > 1 && !w.drawStart(r, mean, u.float64()) {
			return false
		}
	}
	for r := range w.replicas {
		w.look(&w.replicas[r], 0, u)
	}
	return true
}

// drawStart draws the start of a replica after those before it.
func (w *coupleWalker) drawStart(r int, mean, u float64) bool {
	t := w.table
	for k, label := range t.label {
		above, below := product{value: 1}, product{value: 1}
		for _, y := range w.replicas[:r] {
			above.multiply(w.at(0, label, y.label))
			below.multiply(w.starts[y.start])
		}
		for range w.theta - 1 - r {
			above.multiply(w.starts[k])
			below.multiply(mean)
		}
		if u -= t.prob[k] * w.root(above, below); u < 0 {
			w.replicas[r].label, w.replicas[r].start = label, k
			return true
		}
	}
	return false
}

// options are the probabilities that a replica with a free label does not take part at step i, and
// that it does. The ones before it are decided.
func (w *coupleWalker) options(i, r, label int) (stay, take float64) {
	t := w.table
	h, taken := t.law.Hazard(label, i), w.taken[label]
	self := w.overlap[i][0]
	stays, takes, means := product{value: 1}, product{value: 1}, product{value: 1}
	for s := range w.replicas {
		if s == r {
			continue
		}
		y := &w.replicas[s]
		var without, with float64 // U after the step where r does not take part, and where it does
		if y.took == i {
			without, with = w.at(i+1, label, y.label), self*w.at(i+1, taken, y.label)
		} else {
			other := w.passed(y.label, i-y.since)
			then := w.passed(other, 1)
			without, with = w.at(i+1, label, then), w.overlapOf(i, other)*w.at(i+1, taken, then)
			if s > r && w.number[other] >= 0 {
				chance, then := t.law.Hazard(other, i), w.taken[other]
				without = (1-chance)*without + chance*w.at(i+1, label, then)
				with = (1-chance)*with + chance*self*w.at(i+1, taken, then)
			}
		}
		stays.multiply(without)
		takes.multiply(with)
		means.multiply((1-h)*without + h*with)
	}
	return (1 - h) * w.root(stays, means), h * w.root(takes, means)
}

// product is one of many numbers above 0.
type product struct{ value, log float64 }

func (p *product) multiply(x float64) {
	if p.value *= x; p.value < 1e-150 || p.value > 1e150 {
		p.log += math.Log(p.value)
		p.value = 1
	}
}

// root is the root of degree θ-1 of the ratio of two products of U, which is a ratio of V̂.
func (p *couples) root(above, below product) float64 {
	if p.theta == 2 {
		return above.value / below.value * math.Exp(above.log-below.log)
	}
	return math.Exp((math.Log(above.value/below.value) + above.log - below.log) / float64(p.theta-1))
}

// coupleSearch is the order of couples that serves best.
type coupleSearch struct {
	member    Member  // of the least M times the time of a sample; of order 0 without one
	walkError float64 // of member
	total     float64 // M of member times that time, in ns
	bound     float64 // the least M of all orders
}

// searchCouples tries the orders of couples from first on, with tables of at most work states times
// steps each. M falls with the order and rises again.
func searchCouples(c Config, columns *likelihood.Columns, first int, work float64, watch watcher) coupleSearch {
	best := coupleSearch{total: math.Inf(1), bound: math.Inf(1)}
	k := c.Spec.ExamplesPerOwner()
	f, ok := newLawFamily(c.Spec)
	if !ok || !f.coupled() || f.times <= 1+countError { // tables of all replicas do for at most one participation
		return best
	}
	l := f.law
	if sliceSize(l, 2)*float64(c.Spec.Steps) > min(work, maxOrderWork) || keptBytes(l, c.Spec.Steps, 2) > maxTableBytes {
		return best
	}
	for order := first; order <= maxBlockOrder && watch.tell(0) == nil; order++ {
		s, err := newCoupleSource(c.Spec, columns, order, false)
		if err != nil {
			break
		}
		m := Member{Order: order, Weight: 1, LogN: s.logN(), Couples: true}
		bound := mixture{[]Member{m}, c.Epsilon, k}.bound()
		if total := bound * (sampleTime(c.Spec, drawsFor(c.Spec, c.Direction)) + coupleTime(f.times, order)); total < best.total {
			best.member, best.walkError, best.total = m, s.walkError, total
		}
		if bound > best.bound {
			break
		}
		best.bound = bound
	}
	return best
}

// coupleTime is about the time to draw a tuple of couples, in ns.
func coupleTime(participations float64, order int) float64 {
	return participations * float64(order) * (450 + 16*float64(order))
}

// upward is by how much a hazard is raised: more than rounding can take from it.
const upward = 1 + 1e-12

package pld

import (
	"fmt"
	"math"

	"minsep/internal/param"
)

// Step is an event that happens Count times.
type Step struct {
	Event
	Count int `json:"count"` // at least 1
}

// Options say how finely losses are rounded. The zero value chooses both numbers itself.
type Options struct {
	// Grid is the spacing of losses. 0 chooses one at which the bracket of ε is about 1e-4 wide or
	// less.
	Grid float64 `json:"grid,omitempty"`
	// Tail is the probability that may be cut off, over all steps; it is counted in δ. 0 means
	// 1e-20. Choose it well below the smallest δ of interest.
	Tail float64 `json:"tail,omitempty"`
}

// Bracket holds two proven bounds of a number: Lower ≤ number ≤ Upper. Upper is the one to claim.
type Bracket struct {
	Lower float64 `json:"lower"` // at most Upper
	Upper float64 `json:"upper"` // may be +Inf
}

// worse returns the bracket of the larger of two numbers.
func (b Bracket) worse(o Bracket) Bracket {
	return Bracket{max(b.Lower, o.Lower), max(b.Upper, o.Upper)}
}

// Composition is a sequence of events, released together. It is safe for concurrent use.
type Composition struct {
	// PQ and QP are the two directions: H(P,Q), with P the run that has the owner's data, and
	// H(Q,P).
	PQ, QP Loss
}

// Loss is the distribution of the privacy loss in one direction, between two discrete ones: lower
// is dominated by it, and upper dominates it.
type Loss struct{ lower, upper product }

// maxCells bounds the cells of one discrete distribution: 16 MiB of masses.
const maxCells = 1 << 21

// Compose composes the steps, in any order.
func Compose(steps []Step, o Options) (*Composition, error) {
	c := param.Checker{}
	c.Require(len(steps) > 0, "steps", len(steps), "must not be empty")
	checkSteps(&c, steps)
	c.Require(o.Grid == 0 || o.Grid >= 1e-7 && o.Grid <= 1, "grid", o.Grid, "must be 0 or in [1e-7, 1]")
	c.Require(o.Tail == 0 || o.Tail >= 1e-280 && o.Tail < 1e-3, "tail", o.Tail, "must be 0 or in [1e-280, 1e-3)")
	if err := c.Err(); err != nil {
		return nil, err
	}
	count := 0
	for _, s := range steps {
		count += s.Count
	}
	tail := o.Tail
	if tail == 0 {
		tail = 1e-20
	}
	tail /= 2 * float64(count) // each event cuts it at both ends
	grid := o.Grid
	if grid == 0 {
		grid = chooseGrid(steps, count, tail)
	}
	out := &Composition{}
	for _, s := range steps {
		for _, d := range out.directions() {
			lower, upper, err := s.discretize(d.view, grid, tail)
			if err != nil {
				return nil, err
			}
			d.loss.lower.grid, d.loss.upper.grid, d.loss.lower.below = grid, grid, true
			d.loss.lower.terms = append(d.loss.lower.terms, term{lower, float64(s.Count)})
			d.loss.upper.terms = append(d.loss.upper.terms, term{upper, float64(s.Count)})
		}
	}
	return out, nil
}

// checkSteps reports every fault of a list of steps, by its index.
func checkSteps(c *param.Checker, steps []Step) {
	for i, s := range steps {
		if err := s.Validate(); err != nil {
			c.Add(fmt.Errorf("step entry %d: %w", i, err))
		}
		c.AtLeast("count", s.Count, 1)
	}
}

// direction is one direction of a composition, and the function that turns an event's pair (P,Q)
// into the pair of that direction.
type direction struct {
	loss *Loss
	view func(pair) pair
}

func (c *Composition) directions() [2]direction {
	return [2]direction{{&c.PQ, func(p pair) pair { return p }}, {&c.QP, pair.mirrored}}
}

// discretize discretises every alternative of an event, in one direction, and mixes them by their
// probabilities. A grid that is too fine for the range of losses is a *ParamError.
func (e Event) discretize(view func(pair) pair, grid, tail float64) (lower, upper atoms, err error) {
	parts, rest := e.parts()
	upper.inf = rest
	for _, part := range parts {
		up, low := view(part.upper), view(part.lower)
		first, last := up.support(tail)
		if n := (up.at(last).loss - up.at(first).loss) / grid; n > maxCells {
			return lower, upper, &ParamError{
				Param: "grid",
				Value: grid,
				Rule: fmt.Sprintf(
					"is too fine for losses between %.3g and %.3g: at most %d cells",
					up.at(first).loss,
					up.at(last).loss,
					maxCells,
				),
			}
		}
		l, u := up.discretize(grid, tail)
		if part.distinct() {
			l, _ = low.discretize(grid, tail)
		}
		lower = lower.plus(l, part.probability)
		upper = upper.plus(u, part.probability)
	}
	return lower, upper, nil
}

// distinct reports whether the part's lower and upper pairs differ; den is the same in both.
func (p part) distinct() bool {
	if len(p.lower.num) != len(p.upper.num) {
		return true
	}
	for i := range p.lower.num {
		if p.lower.num[i] != p.upper.num[i] {
			return true
		}
	}
	return false
}

// plus returns a plus weight times b.
func (a atoms) plus(b atoms, weight float64) atoms {
	if a.mass == nil {
		a.low = b.low
	}
	low := min(a.low, b.low)
	high := max(a.low+len(a.mass), b.low+len(b.mass))
	out := atoms{low: low, mass: make([]float64, high-low), inf: a.inf + weight*b.inf}
	copy(out.mass[a.low-low:], a.mass)
	for i, m := range b.mass {
		out.mass[b.low-low+i] += weight * m
	}
	return out
}

// chooseGrid returns a spacing for count events. The error of the discretisation is of second
// order: about count·grid² in ε for usual tilts, and it also grows as the spacing nears the spread
// of a step's loss. The spacing brings the two to about 1e-5 and 1e-4, unless that takes too many
// cells. If the composed loss spreads over more than 4, an error of 1e-4 of what is beyond is small
// beside it, and its own cells are limited too: such compositions are of much too little noise, or of
// a very large ε.
func chooseGrid(steps []Step, count int, tail float64) float64 {
	fine, floor := gridOf(steps, tail)
	spread := composedSpread(steps)
	grid := min(math.Sqrt((1e-5+1e-4*max(0, spread-4))/float64(count)), fine)
	if spread > 4 {
		floor = max(floor, 12*spread/(1<<21))
	}
	return min(1, max(grid, floor, 1e-7))
}

// composedSpread returns about the standard deviation of the composed loss.
func composedSpread(steps []Step) float64 {
	variance := 0.0
	for _, s := range steps {
		parts, _ := s.parts()
		for _, part := range parts {
			spread := max(part.upper.spread(), part.upper.mirrored().spread())
			variance += float64(s.Count) * part.probability * spread * spread
		}
	}
	return math.Sqrt(variance)
}

// gridOf returns a spacing that is fine enough for the spread of each step's loss, and the least
// spacing that keeps every step within 2^19 cells. Without steps it returns +Inf and 0.
func gridOf(steps []Step, tail float64) (fine, least float64) {
	fine = math.Inf(1)
	for _, s := range steps {
		parts, _ := s.parts()
		for _, part := range parts {
			for _, p := range []pair{part.upper, part.upper.mirrored()} {
				fine = min(fine, 0.02*p.spread())
				first, last := p.support(tail)
				least = max(least, (p.at(last).loss-p.at(first).loss)/(1<<19))
			}
		}
	}
	return fine, least
}

// Delta brackets the smallest δ at which the composition is (epsilon, δ)-DP, epsilon ≥ 0: the worse
// of the two directions.
func (c *Composition) Delta(epsilon float64) (Bracket, error) {
	pq, err := c.PQ.Delta(epsilon)
	if err != nil {
		return Bracket{}, err
	}
	qp, err := c.QP.Delta(epsilon)
	return pq.worse(qp), err
}

// Epsilon brackets the smallest ε ≥ 0 at which the composition is (ε, delta)-DP: the worse of the
// two directions. Its Upper is +Inf if delta is at most the mass that was cut off (Options.Tail).
func (c *Composition) Epsilon(delta float64) (Bracket, error) {
	pq, err := c.PQ.Epsilon(delta)
	if err != nil {
		return Bracket{}, err
	}
	qp, err := c.QP.Epsilon(delta)
	return pq.worse(qp), err
}

// UpperDelta returns the upper end of Delta, and takes half of its time: a search needs no other.
func (c *Composition) UpperDelta(epsilon float64) (float64, error) {
	if err := checkEpsilon(epsilon); err != nil {
		return 0, err
	}
	return max(c.PQ.upperDelta(epsilon), c.QP.upperDelta(epsilon)), nil
}

// Delta brackets the divergence of one direction.
func (l Loss) Delta(epsilon float64) (Bracket, error) {
	if err := checkEpsilon(epsilon); err != nil {
		return Bracket{}, err
	}
	return Bracket{
		Lower: l.lower.compose(l.lower.tiltForEpsilon(epsilon)).delta(epsilon, false),
		Upper: l.upperDelta(epsilon),
	}, nil
}

// upperDelta returns an upper bound of the divergence at a valid epsilon.
func (l Loss) upperDelta(epsilon float64) float64 {
	return l.upper.compose(l.upper.tiltForEpsilon(epsilon)).delta(epsilon, true)
}

func checkEpsilon(epsilon float64) error {
	c := param.Checker{}
	c.Require(epsilon >= 0 && !math.IsInf(epsilon, 1), "epsilon", epsilon, "must be a finite number, at least 0")
	return c.Err()
}

// Epsilon brackets the ε of one direction.
func (l Loss) Epsilon(delta float64) (Bracket, error) {
	c := param.Checker{}
	c.Require(delta > 0 && delta < 1, "delta", delta, "must be above 0 and below 1")
	if err := c.Err(); err != nil {
		return Bracket{}, err
	}
	return Bracket{Lower: l.lower.epsilon(delta, false), Upper: l.upper.epsilon(delta, true)}, nil
}

// epsilon bounds ε at delta. It composes under the tilt that suits delta, and then under smaller
// tilts as long as the answer lies outside the window, or the tilt aims far beyond the answer. That
// happens where the losses of some steps have few values, and rounding is then large at the answer.
// Every answer is a valid bound, and the best one counts.
func (p product) epsilon(delta float64, upper bool) float64 {
	tilt := p.tiltForDelta(delta)
	best := 0.0
	if upper {
		best = math.Inf(1)
	}
	for {
		epsilon, inside := p.compose(tilt).epsilon(delta, upper)
		if upper {
			best = min(best, epsilon)
		} else {
			best = max(best, epsilon)
		}
		next := 0.7 * tilt
		if inside && !math.IsInf(best, 1) {
			next = p.tiltForEpsilon(best)
		}
		switch {
		case tilt == 0, inside && next > tilt/2:
			return best
		case next < 0.1:
			next = 0
		}
		tilt = next
	}
}

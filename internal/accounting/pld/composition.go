package pld

import (
	"fmt"
	"math"

	"minsep/internal/param"
)

// Event is a part of a training: a Release, an Allocation, or a mechanism that is known by its Points.
type Event interface {
	// Validate reports every fault.
	Validate() error
	// resolution returns what the event asks of the grid, if the mass tail may be cut at either end.
	resolution(tail float64) resolution
	// losses returns privacy loss distributions on a grid that dominate the event's own: of ln(P/Q)
	// under P, and of ln(Q/P) under Q.
	losses(grid, tail float64) (pq, qp atoms)
}

// resolution is what an event asks of the grid of losses.
type resolution struct {
	fine     float64 // a spacing that is small beside the spread of the losses
	least    float64 // the least spacing that needs no more cells than are allowed
	variance float64 // about the variance of the loss, or 0 if it is not known
	adds     bool    // whether the error of the rounding adds up over events, by about grid²/8 each
}

// Step is an event that happens Count times.
type Step struct {
	Event
	Count int // at least 1
}

// Options say how finely losses are rounded. The zero value chooses both numbers itself.
type Options struct {
	// Grid is the spacing of losses. 0 chooses one that adds about 1e-4 to ε or less. A coarser grid
	// is taken if the losses would need too many cells.
	Grid float64
	// Tail is the probability that may be cut off, over all steps; it is counted in δ. 0 means
	// 1e-20. Choose it well below the smallest δ of interest.
	Tail float64
}

// Composition is a sequence of events, released together; each may be chosen after a look at the
// earlier ones (F6.2). It is safe for concurrent use.
type Composition struct {
	// PQ and QP are the two directions: H(P,Q), with P the run that has the owner's data, and
	// H(Q,P).
	PQ, QP Loss
}

// maxCells bounds the cells of one discrete distribution: 16 MiB of masses.
const maxCells = 1 << 21

// fewCells bounds the cells of a composed loss that spreads far or has more than manySteps.
const (
	fewCells  = 1 << 19
	manySteps = 500_000
)

// Compose composes the steps, in any order.
func Compose(steps []Step, o Options) (*Composition, error) {
	c := param.Checker{}
	c.Require(len(steps) > 0, "steps", len(steps), "must not be empty")
	count := 0
	for i, s := range steps {
		if err := s.Validate(); err != nil {
			c.Add(fmt.Errorf("step entry %d: %w", i, err))
		}
		c.AtLeast("count", s.Count, 1)
		count += s.Count
	}
	c.Require(o.Grid == 0 || o.Grid >= 1e-7 && o.Grid <= 1, "grid", o.Grid, "must be 0 or in [1e-7, 1]")
	c.Require(o.Tail == 0 || o.Tail >= 1e-280 && o.Tail < 1e-3, "tail", o.Tail, "must be 0 or in [1e-280, 1e-3)")
	if err := c.Err(); err != nil {
		return nil, err
	}
	tail := o.Tail
	if tail == 0 {
		tail = 1e-20
	}
	tail /= 2 * float64(count) // each event cuts it at both ends
	grid := chooseGrid(steps, o.Grid, tail)
	out := &Composition{Loss{grid: grid}, Loss{grid: grid}}
	for _, s := range steps {
		pq, qp := s.losses(grid, tail)
		out.PQ.terms = append(out.PQ.terms, term{pq, float64(s.Count)})
		out.QP.terms = append(out.QP.terms, term{qp, float64(s.Count)})
	}
	return out, nil
}

// chooseGrid returns the spacing that is asked for, or for 0 a fine one. The error of the
// discretisation is of second order: about count·grid² in ε for usual tilts, and it also grows as
// the spacing nears the spread of a step's loss. The spacing brings the two to about 1e-5 and 1e-4,
// unless that takes too many cells. If the composed loss spreads over more than 4, or is one of very many
// steps, its own cells are limited too, and an error of count·s²·7e-11 in ε, of about s²/2 + 4s for a
// spread of s, is small beside it: such compositions are of much too little noise, or of a very large ε.
func chooseGrid(steps []Step, asked, tail float64) float64 {
	count, variance, fine, least := 0, 0.0, 1.0, 1e-7
	for _, s := range steps {
		r := s.resolution(tail)
		fine, least = min(fine, r.fine), max(least, r.least)
		variance += float64(s.Count) * r.variance
		if r.adds {
			count += s.Count
		}
	}
	if asked > 0 {
		return max(asked, least)
	}
	spread := math.Sqrt(variance)
	if spread > 4 || count > manySteps {
		least = max(least, 12*spread/fewCells)
	}
	grid := max(least, min(fine, math.Sqrt((1e-5+1e-4*max(0, spread-4))/float64(count))))
	// A single point is not rounded at all on a grid that divides its ε.
	if points, is := steps[0].Event.(Points); is {
		if first := points[0].Epsilon; first > grid && first <= LargestPoint {
			grid = first / math.Floor(first/grid)
		}
	}
	return grid
}

// Delta bounds the smallest δ at which the composition is (epsilon, δ)-DP, epsilon ≥ 0: the worse
// of the two directions.
func (c *Composition) Delta(epsilon float64) (float64, error) {
	pq, err := c.PQ.Delta(epsilon)
	if err != nil {
		return 0, err
	}
	qp, err := c.QP.Delta(epsilon)
	return max(pq, qp), err
}

// Epsilon bounds the smallest ε ≥ 0 at which the composition is (ε, delta)-DP: the worse of the two
// directions. It is +Inf if delta is at most the mass that was cut off (Options.Tail).
func (c *Composition) Epsilon(delta float64) (float64, error) {
	k := param.Checker{}
	k.Require(delta > 0 && delta < 1, "delta", delta, "must be above 0 and below 1")
	if err := k.Err(); err != nil {
		return 0, err
	}
	return max(c.PQ.epsilon(delta), c.QP.epsilon(delta)), nil
}

// Delta bounds the divergence of one direction.
func (l Loss) Delta(epsilon float64) (float64, error) {
	c := param.Checker{}
	c.Require(epsilon >= 0 && !math.IsInf(epsilon, 1), "epsilon", epsilon, "must be a finite number, at least 0")
	if err := c.Err(); err != nil {
		return 0, err
	}
	return l.compose(l.tiltForEpsilon(epsilon)).delta(epsilon), nil
}

// epsilon bounds ε at delta. It composes under the tilt that suits delta, and then under smaller
// tilts as long as the answer lies outside the window, or the tilt aims far beyond the answer. That
// happens where the losses of some steps have few values, and rounding is then large at the answer.
// Every answer is a valid bound, and the smallest one counts.
func (l Loss) epsilon(delta float64) float64 {
	tilt := l.tiltForDelta(delta)
	best := math.Inf(1)
	for {
		epsilon, inside := l.compose(tilt).epsilon(delta)
		best = min(best, epsilon)
		next := 0.7 * tilt
		if inside && !math.IsInf(best, 1) {
			next = l.tiltForEpsilon(best)
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

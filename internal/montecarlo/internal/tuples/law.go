// Package tuples sums and draws θ-tuples of participation patterns of one example: N_θ = E_Q f^θ of
// a sampling scheme, exactly or bounded from above, and tuples by their terms (F5.2, F5.3, F5.9).
//
// # One table
//
// A scheme is a [Law], a Markov chain from point to point: a point is a step at which an example
// may take part, so that waiting takes no time and no states. All that matters of an example before
// a step is its label: its next point, and the participations whose columns may still overlap with
// later ones. A forward pass lists the labels of each step (labels.go). A state is a multiset of
// the labels of θ independent copies, and a backward recursion gives the sum over all ways on from
// each state (moves.go, table.go). A [Walker] draws tuples by a walk through the same table. All of
// it is exact for every law, and for any C ≥ 0 with any number of bands.
//
// # One upper bound
//
// Where an exact table is too large, steps are taken in blocks, and all participations of a block
// with one state have one merged label. Whether a copy with such a label is free is then decided by
// an adversary, and its overlap is the largest that it can have: the table is a supersolution of
// the recursion, N̂ ≥ N_θ, and tuples drawn from it have weights of at most 1. It needs columns
// that end before the example is free again.
//
// Steps are 0-based. Labels (F5.2, …) are labels of docs/formulas.md, which has the proofs.
package tuples

import "math"

// Never is the step of a point that an example does not reach.
const Never = math.MaxInt

// Point is where an example may take part the next time: at Step, in a state that the law numbers
// as it likes.
type Point struct{ Step, State int }

// Start is a first point and its probability.
type Start struct {
	Point
	Prob float64
}

// Law is how one example takes part in a run, as a Markov chain from point to point. It is
// read-only and may be shared.
type Law struct {
	Start []Start
	// Next gives the probability p that an example takes part at a point of the run, and its next
	// point, of a later step, if it does (in) and if it does not (out). If p is 0, in is not used; if
	// p is 1, out is not. With a Period points may lie after the run.
	Next func(at Point) (p float64, in, out Point)
	// Period, unless 0, is a number of steps by which all points of Next may be moved: p stays the
	// same, and in and out move by as many. It only saves time.
	Period int
}

// settle is the first point, from the given one on, at which an example may take part, or a point
// after the run.
func (l Law) settle(at Point, steps int) Point {
	for at.Step < steps {
		p, _, out := l.Next(at)
		if p > 0 {
			return at
		}
		at = out
	}
	return at
}

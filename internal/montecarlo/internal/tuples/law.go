// Package tuples sums and draws θ-tuples of participation patterns of one example: N_θ = E_Q f^θ of
// a sampling scheme, exactly or bounded from above, and tuples by their terms (F5.2, F5.3, F5.9).
//
// # One table
//
// A scheme is a [sampling.Table], a Markov chain from point to point: a point is a step at which an
// example may take part, so that waiting takes no time and no states. All that matters of an example before
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

import "minsep/sampling"

// law is a table of a scheme as tables of tuples follow it.
type law struct {
	*sampling.Table
	period int // number of steps after which its rows repeat themselves, 0 if they do not
}

func newLaw(t *sampling.Table) law { return law{t, periodOf(t)} }

// periodOf is the least number of steps, below that of the run, after which all rows are the same
// again, or 0: the steps less the longest end of the run that is like its beginning.
func periodOf(t *sampling.Table) int {
	same := make([]int, t.Steps+1) // same[i]: the longest end, shorter than i, of the first i steps that is like their beginning
	same[0] = -1
	for i := range t.Steps {
		k := same[i]
		for k >= 0 && t.RowOf(k) != t.RowOf(i) {
			k = same[k]
		}
		same[i+1] = k + 1
	}
	if same[t.Steps] == 0 {
		return 0
	}
	return t.Steps - same[t.Steps]
}

// next is the probability that an example takes part at a point, and its next points, if an example
// can reach it. Steps from the end of the run on are like those of a period before.
func (l law) next(at sampling.Point) (p float64, in, out sampling.Point, reached bool) {
	step := at.Step
	if step >= l.Steps {
		step -= (step - l.Steps + l.period) / l.period * l.period
	}
	x, reached := l.Choice(sampling.Point{Step: step, State: at.State})
	return x.Prob(), l.to(at.Step, x.In), l.to(at.Step, x.Out), reached
}

// to is the point of a jump. Points that no example reaches in the run are alike, unless steps
// repeat themselves: labels are then the same at the end of the run as before.
func (l law) to(step int, j sampling.Jump) sampling.Point {
	if j.Wait == 0 || j.Wait >= l.Steps || l.period == 0 && step+j.Wait >= l.Steps {
		return sampling.Point{Step: sampling.Never}
	}
	return sampling.Point{Step: step + j.Wait, State: j.State}
}

// Labels is the largest number of labels before a step, for columns of so many bands that end before
// the example may take part again. Participations of one step whose columns have not ended have a
// label of their own; others have one label for each point that they wait for.
func Labels(t *sampling.Table, bands int) (most int) {
	l := newLaw(t)
	change := make([]int, t.Steps+1) // of the number of labels, by step
	add := func(from, to int) {
		if from = min(from, t.Steps); from < to {
			change[from]++
			change[min(to, t.Steps)]--
		}
	}
	ended := map[sampling.Point]int{} // by point: the first step of its label
	wait := func(at sampling.Point, from int) {
		if first, known := ended[at]; !known || from < first {
			ended[at] = from
		}
	}
	for _, s := range t.Starts {
		wait(sampling.Point{Step: s.Step, State: s.State}, 0)
	}
	for i := range t.Steps {
		for _, x := range t.Row(i) {
			in := l.to(i, x.In)
			add(i, i+1)
			add(i+1, min(i+bands, in.Step))
			wait(in, i+bands)
		}
	}
	for at, first := range ended {
		add(first, at.Step)
	}
	labels := 0
	for _, d := range change {
		labels += d
		most = max(most, labels)
	}
	return most
}

// Package law says how one example takes part in a run: as a Markov chain over labels, which a
// table, a walk or a recursion can follow without knowing the sampler.
//
// Before each step an example has a label. It is free, and takes part at the step with the hazard
// of its label, or it waits for a label that is free. A free example keeps its label until it takes
// part. A law is a few lines; see the files of this package, and package lawtest. Likelihood ratio,
// posterior, draws and tables of tuples follow from it. Steps are 0-based.
//
// A law of one free label gives it the number 0, and 1 … b-1 to the steps that a participation
// blocks it for; other waiting labels follow. Tables are faster for that order.
package law

import "math"

// Law is the distribution of one example's participations. A Law is read-only and may be shared.
type Law interface {
	// Labels is their number.
	Labels() int
	// Free says whether an example with a label can take part.
	Free(label int) bool
	// Starts are the labels before the first step in the order in which they are drawn; some may have
	// the probability 0. drawn says that a random number is spent on the choice, even where there is
	// only one start.
	Starts() (starts []Start, drawn bool)
	// Hazard is the probability that an example with a free label takes part at a step.
	Hazard(label, step int) float64
	// Quiet is the probability that an example with a free label does not take part from one step up
	// to a later one.
	Quiet(label, from, to int) float64
	// Age is how many steps ago an example with a label took part, if its column may still overlap
	// with another; else 0.
	Age(label int) int
	// Kind is the kind of a step, below kinds: labels change alike at all steps of a kind.
	Kind(step int) (kind, kinds int)
	// Enter is the label, before a step of the kind, of an example that had the given label before the
	// previous step. takes says whether it took part at the previous step.
	Enter(label, kind int, takes bool) int
	// FreeAt is the first step, from the given one on, at which an example with a label is free. With
	// one kind of step the wait of a label is the same at every step, unless AllFreeAt returns a step.
	FreeAt(label, step int) int
	// Pass is the label before step to of an example that has the given label before step from and
	// takes part at no step between.
	Pass(label, from, to int) int
	// FreeUntil is the step by which every example that is free at a step takes part, or math.MaxInt.
	FreeUntil(step int) int
	// AllFreeAt is the step at which every example with a waiting label is first free, or -1 where
	// that depends on the label.
	AllFreeAt(step int) int
	// Unmet is a range of steps, from ≤ step < to, at which no example becomes free that waits before
	// step i or before an earlier step.
	Unmet(i int) (from, to int)
}

// Plain is for laws to embed that are the same at every step except for hazards: labels change
// alike at every step, and no free example must take part by a known step.
type Plain struct{}

func (Plain) Kind(int) (kind, kinds int) { return 0, 1 }

func (Plain) FreeUntil(int) int { return math.MaxInt }

func (Plain) AllFreeAt(int) int { return -1 }

// Start is a label before the first step and its probability. The logarithm of Prob is Log + Rest.
// A sum with other terms can begin with either of them, and the bits of samples depend on the
// order.
type Start struct {
	Label           int
	Prob, Log, Rest float64
}

package sampling

import (
	"cmp"
	"fmt"
	"math/bits"
	"slices"
	"sort"

	"minsep/internal/param"
)

// Fixed forms batches of exactly BatchSize for training without amplification.
//
// # Formal guarantees
//
// Without owners, the examples are shuffled once and gone through in passes, so that two
// participations of an example are at least MinSep steps apart and there are at most
// MaxParticipations. With owners, a greedy pass guarantees the same for the examples of each owner
// together (the baseline of arXiv 2602.09338, section 7.3). The accounting of F2 uses nothing else:
// it needs neither randomness nor a secret order. Copies of an example are not told apart: an
// example comes back as often as its owners may take part. A scheme that cannot be met is an
// [InfeasibleError].
type Fixed struct {
	BatchSize         int `json:"batch_size"`                   // exact, at least 1
	Steps             int `json:"steps"`                        // 1 to MaxSteps
	MinSep            int `json:"min_sep"`                      // least distance in steps of two participations, 1 to MaxSteps
	MaxParticipations int `json:"max_participations,omitempty"` // k; 0: as many as MinSep allows
}

var fixedKind = Kind{
	Name:           "fixed",
	Help:           "batches of exactly X examples for training without amplification",
	Owners:         OwnersIfKnown,
	Takes:          []string{"max-participations"},
	ExactBatchSize: true,
	examplesOnly:   "is not for fixed, which forms batches of examples",
	untruncated:    "is not for fixed: all its batches have one size",
	check: func(p Params, c *param.Checker) {
		c.AtLeast("min-sep", p.MinSep, 1)
		c.Require(p.Prob == 0, "prob", p.Prob, "must be left out for fixed")
		c.Require(
			p.BatchSize >= 1 && p.BatchSize == float64(int(p.BatchSize)),
			"batch size",
			p.BatchSize,
			"must be a whole number of at least 1 for fixed",
		)
	},
	spec: func(p Params, of Population) (Spec, error) {
		s := Fixed{
			BatchSize:         int(p.BatchSize),
			Steps:             p.Steps,
			MinSep:            p.MinSep,
			MaxParticipations: p.MaxParticipations,
		}
		if of.Examples > 0 { // unknown in an account without batches
			if err := s.CheckExamples(of.Examples); err != nil {
				return Spec{}, err
			}
		}
		return Spec{Fixed: &s}, nil
	},
	scheme: func(s Spec) Scheme { return orNil(s.Fixed) },
}

// Owners holds the owners of examples 0, 1, …: Of[Ends[e-1]:Ends[e]] for example e, and
// Of[:Ends[0]] for e = 0.
type Owners struct {
	Ends []int   // by example: the end of its owners in Of
	Of   []int32 // numbers of owners, from 0
}

func (o *Owners) of(e int32) []int32 {
	if e == 0 {
		return o.Of[:o.Ends[0]]
	}
	return o.Of[o.Ends[e-1]:o.Ends[e]]
}

// Name returns "fixed".
func (Fixed) Name() string { return "fixed" }

// NumSteps returns Steps.
func (s Fixed) NumSteps() int { return s.Steps }

// Separation returns MinSep, for the examples of one owner together.
func (s Fixed) Separation() int { return s.MinSep }

// Validate returns every fault of the parameters, joined.
func (s Fixed) Validate() error {
	c := param.Checker{}
	c.AtLeast("batch size", s.BatchSize, 1)
	checkSteps(&c, s.Steps, s.MinSep)
	c.Require(
		s.MaxParticipations >= 0,
		"max participations",
		s.MaxParticipations,
		"must be at least 1, or 0 for no bound but min-sep's",
	)
	return c.Err()
}

// bound is the largest number of participations of one example or owner.
func (s Fixed) bound() int {
	most := (s.Steps + s.MinSep - 1) / s.MinSep
	if s.MaxParticipations > 0 {
		return min(most, s.MaxParticipations)
	}
	return most
}

// Form returns the rows of all batches; batch t is [t·BatchSize, (t+1)·BatchSize), in no particular
// order. priority[e], a word of example e's own stream, is its sort key in the shuffle. owners may
// be nil. Form runs in memory in one goroutine, and takes about 40 bytes for each example and 8 for
// each owner entry.
func (s Fixed) Form(priority []uint64, owners *Owners) ([]int32, error) {
	order := shuffled(priority)
	if owners == nil {
		return s.passes(order)
	}
	rows, failed, got := s.greedy(order, owners)
	if failed < 0 {
		return rows, nil
	}
	// The largest batch size that bisection shows to work; it is only reported after it was formed.
	works := sort.Search(min(s.BatchSize, len(order)+1)-1, func(i int) bool {
		larger := s
		larger.BatchSize = i + 1
		_, failed, _ := larger.greedy(order, owners)
		return failed >= 0
	})
	return nil, infeasible(float64(s.BatchSize), float64(works), fmt.Sprintf(
		"step %d of %d finds only %d examples with owners that may take part at min-sep %d, at most %d times each",
		failed,
		s.Steps,
		got,
		s.MinSep,
		s.bound(),
	))
}

func shuffled(priority []uint64) []int32 {
	order := make([]int32, len(priority))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int {
		return cmp.Or(cmp.Compare(priority[a], priority[b]), cmp.Compare(a, b))
	})
	return order
}

// CheckExamples returns an [InfeasibleError] unless batches can be formed of this many examples,
// each of an owner of its own. It validates s first.
func (s Fixed) CheckExamples(examples int64) error {
	if err := s.Validate(); err != nil {
		return err
	}
	largest := examples
	if s.Steps > 1 {
		high, low := bits.Mul64(uint64(s.bound()), uint64(examples))
		each, _ := bits.Div64(high, low, uint64(s.Steps))
		largest = min(examples/int64(s.MinSep), int64(each))
	}
	if int64(s.BatchSize) <= largest {
		return nil
	}
	return infeasible(float64(s.BatchSize), float64(largest), fmt.Sprintf(
		"%d examples at min-sep %d, at most %d times each, in %d steps", examples, s.MinSep, s.bound(), s.Steps))
}

// passes repeats the shuffled order. Slot x of the sequence is in step x / BatchSize, so an example
// comes back after at least floor(examples / BatchSize) steps.
func (s Fixed) passes(order []int32) ([]int32, error) {
	examples := len(order)
	if err := s.CheckExamples(int64(examples)); err != nil {
		return nil, err
	}
	slots := s.BatchSize * s.Steps
	rows := make([]int32, 0, slots)
	for len(rows) < slots {
		rows = append(rows, order[:min(examples, slots-len(rows))]...)
	}
	return rows, nil
}

// greedy fills one step after the other with the examples that took part least often and whose
// owners are all free, in the shuffled order. failed is the first step that could not be filled, or
// -1; got is the number of examples that it found.
func (s Fixed) greedy(order []int32, owners *Owners) (rows []int32, failed, got int) {
	numOwners := int32(-1)
	for _, u := range owners.Of {
		numOwners = max(numOwners, u)
	}
	free := make([]int32, numOwners+1) // first step in which the owner may take part
	used := make([]int32, numOwners+1)
	ready := make(queue, len(order)) // participations so far << 32 | place in the order
	for i := range ready {
		ready[i] = uint64(i)
	}
	later := make([][]uint64, s.Steps) // by step: examples that become free then
	wait := func(item uint64, step int) {
		if step < s.Steps {
			later[step] = append(later[step], item)
		}
	}
	rows = make([]int32, 0, min(s.BatchSize, len(order))*s.Steps)
	for t := range s.Steps {
		for _, item := range later[t] {
			ready.push(item)
		}
		later[t] = nil
		for got = 0; got < s.BatchSize; {
			if len(ready) == 0 {
				return nil, t, got
			}
			item := ready.pop()
			example := order[uint32(item)]
			from, most := t, int32(0)
			for _, u := range owners.of(example) {
				from, most = max(from, int(free[u])), max(most, used[u])
			}
			switch {
			case int(most) >= s.bound(): // an owner is used up, and so is the example
			case from > t:
				wait(item, from)
			default:
				rows = append(rows, example)
				got++
				for _, u := range owners.of(example) {
					free[u], used[u] = int32(t+s.MinSep), used[u]+1
				}
				wait(item+1<<32, t+s.MinSep)
			}
		}
	}
	return rows, -1, 0
}

// queue is a binary heap with the smallest item on top.
type queue []uint64

func (q *queue) push(x uint64) {
	*q = append(*q, x)
	h, i := *q, len(*q)-1
	for ; i > 0 && h[(i-1)/2] > x; i = (i - 1) / 2 {
		h[i] = h[(i-1)/2]
	}
	h[i] = x
}

func (q *queue) pop() uint64 {
	h := *q
	least, x := h[0], h[len(h)-1]
	h = h[:len(h)-1]
	*q = h
	i := 0
	for child := 1; child < len(h); child = 2*i + 1 {
		if child+1 < len(h) && h[child+1] < h[child] {
			child++
		}
		if h[child] >= x {
			break
		}
		h[i], i = h[child], child
	}
	if len(h) > 0 {
		h[i] = x
	}
	return least
}

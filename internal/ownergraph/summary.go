package ownergraph

import (
	"maps"
	"slices"
)

// Bin is a value of a histogram and how often it occurs.
type Bin struct {
	Value int64 `json:"value"` // the quantity that was counted, such as examples per owner
	Count int64 `json:"count"` // how often, at least 1
}

// Histogram is a list of bins by ascending value, none of them empty.
type Histogram []Bin

// NewHistogram returns the histogram of counts by value.
func NewHistogram(counts map[int64]int64) Histogram {
	h := Histogram{}
	for _, v := range slices.Sorted(maps.Keys(counts)) {
		if counts[v] != 0 {
			h = append(h, Bin{v, counts[v]})
		}
	}
	return h
}

// Of returns how often a value occurs.
func (h Histogram) Of(value int64) int64 {
	for _, bin := range h {
		if bin.Value == value {
			return bin.Count
		}
	}
	return 0
}

// Most returns the largest value; 0 without any.
func (h Histogram) Most() int64 {
	if len(h) == 0 {
		return 0
	}
	return h[len(h)-1].Value
}

// Summary holds the figures of a bounded graph. They are public, as the graph is.
type Summary struct {
	Examples       int64 `json:"examples"`        // given; counts of this struct are at least 0
	Owners         int64 `json:"owners"`          // given
	Edges          int64 `json:"edges"`           // given, equal ones counted once
	DuplicateEdges int64 `json:"duplicate_edges"` // merged with an equal one

	Kept                int64 `json:"kept"`                 // examples
	KeptCopies          int64 `json:"kept_copies"`          // examples, each as often as it is kept
	KeptEdges           int64 `json:"kept_edges"`           // of kept examples, each counted once
	DroppedOwnerFull    int64 `json:"dropped_owner_full"`   // examples dropped because an owner was full
	DroppedNeighborhood int64 `json:"dropped_neighborhood"` // examples dropped because their neighbourhood was too large

	GivenPerOwner Histogram `json:"given_examples_per_owner"` // over the owners
	KeptPerOwner  Histogram `json:"kept_examples_per_owner"`  // over the owners: copies kept, from 0
	GivenOwners   Histogram `json:"given_owners_per_example"` // over the examples
	KeptOwners    Histogram `json:"kept_owners_per_example"`  // over the examples kept
	Neighborhoods Histogram `json:"neighborhoods"`            // over the kept copies: |N(e)|; empty with pools, where it is 1 in each

	Coverage *Coverage `json:"coverage,omitempty"` // of pools; nil without
}

// given counts examples before they are bounded.
type given struct {
	examples, edges int64
	ofOwner         []uint64 // by owner: examples
	perExample      Tally
}

func (n *given) add(owners []uint32) {
	n.examples++
	n.edges += int64(len(owners))
	n.perExample.Add(int64(len(owners)), 1)
	for _, u := range owners {
		n.ofOwner[u]++
	}
}

func (n *given) summary(duplicateEdges int64) Summary {
	var perOwner Tally
	for _, examples := range n.ofOwner {
		perOwner.Add(int64(examples), 1)
	}
	return Summary{
		Examples:       n.examples,
		Owners:         int64(len(n.ofOwner)),
		Edges:          n.edges,
		DuplicateEdges: duplicateEdges,
		GivenPerOwner:  perOwner.Histogram(),
		GivenOwners:    n.perExample.Histogram(),
	}
}

// summarize drops the examples with too large neighbourhoods, and completes the summary, which has
// the counts of the graph before the bound.
func (r *Bounded) summarize(b Bound) {
	g, s := r.Graph, &r.Summary
	s.DroppedOwnerFull = s.Examples
	for _, c := range r.Copies {
		if c > 0 {
			s.DroppedOwnerFull--
		}
	}
	var sizes []int64
	if r.Pools == nil {
		sizes = g.Neighborhoods(r.Copies)
	} else {
		s.Coverage = r.Pools.Coverage()
		s.DroppedOwnerFull -= r.Pools.Cut
	}
	if b.MaxNeighborhood > 0 {
		for e, size := range sizes {
			if size > int64(b.MaxNeighborhood) {
				r.Copies[e] = 0
				s.DroppedNeighborhood++
			}
		}
		if s.DroppedNeighborhood > 0 {
			sizes = g.Neighborhoods(r.Copies)
		}
	}
	var neighborhoods, perExample, perOwner Tally
	kept := make([]uint64, g.Owners.Len())
	for e, c := range r.Copies {
		if c == 0 {
			continue
		}
		owners := g.OwnersOf.At(e)
		s.Kept++
		s.KeptCopies += int64(c)
		s.KeptEdges += int64(len(owners))
		perExample.Add(int64(len(owners)), 1)
		if sizes != nil {
			neighborhoods.Add(sizes[e], int64(c))
		}
		for _, u := range owners {
			kept[u] += uint64(c)
		}
	}
	for _, copies := range kept {
		perOwner.Add(int64(copies), 1)
	}
	s.KeptPerOwner, s.KeptOwners, s.Neighborhoods = perOwner.Histogram(), perExample.Histogram(), neighborhoods.Histogram()
}

// Tally counts values, in an array where they are small, as most are. The zero value has none.
type Tally struct {
	small [256]int64
	large map[int64]int64
}

// Add counts a value, at least 0, count times.
func (t *Tally) Add(value, count int64) {
	if value < int64(len(t.small)) {
		t.small[value] += count
		return
	}
	if t.large == nil {
		t.large = make(map[int64]int64)
	}
	t.large[value] += count
}

// Histogram returns the histogram of the values.
func (t *Tally) Histogram() Histogram {
	counts := maps.Clone(t.large)
	if counts == nil {
		counts = make(map[int64]int64)
	}
	for value, count := range t.small {
		counts[int64(value)] += count
	}
	return NewHistogram(counts)
}

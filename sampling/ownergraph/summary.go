package ownergraph

import (
	"maps"
	"slices"
)

// Bin is a value of a histogram and how often it occurs.
type Bin struct {
	Value int64 `json:"value"` // what was counted, such as examples per owner
	Count int64 `json:"count"` // how often, at least 1
}

// Histogram has its bins by ascending value, none of them empty.
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

// Summary is what may be told about a bounded graph; the graph is public.
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
	Neighborhoods Histogram `json:"neighborhoods"`            // over the kept copies: |N(e)|
}

// summarize bounds the neighbourhoods and counts.
func (r *Bounded) summarize(b Bound) {
	g, s := r.Graph, &r.Summary
	s.Examples, s.Owners = int64(g.Examples.Len()), int64(g.Owners.Len())
	s.Edges, s.DuplicateEdges = g.Edges(), g.DuplicateEdges
	for _, c := range r.Copies {
		if c == 0 {
			s.DroppedOwnerFull++
		}
	}
	sizes := g.Neighborhoods(r.Copies)
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
	neighborhoods, given, kept := map[int64]int64{}, map[int64]int64{}, map[int64]int64{}
	for e, c := range r.Copies {
		if c > 0 {
			s.Kept++
			s.KeptCopies += int64(c)
			s.KeptEdges += int64(len(g.OwnersOf.At(e)))
			neighborhoods[sizes[e]] += int64(c)
		}
	}
	for u := range g.Owners.Len() {
		n := int64(0)
		for _, e := range g.ExamplesOf.At(u) {
			n += int64(r.Copies[e])
		}
		kept[n]++
		given[int64(len(g.ExamplesOf.At(u)))]++
	}
	s.Neighborhoods, s.GivenPerOwner, s.KeptPerOwner = NewHistogram(neighborhoods), NewHistogram(given), NewHistogram(kept)
}

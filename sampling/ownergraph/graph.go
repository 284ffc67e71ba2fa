package ownergraph

import (
	"errors"
	"fmt"
	"math"
	"slices"
)

// Errors of graphs that cannot be used.
var (
	// ErrNoOwners is returned for an example without owners: no owner's bound would hold for it.
	// Examples that nobody owns do not belong in an owner graph.
	ErrNoOwners = errors.New("ownergraph: an example without owners")
	// ErrTooLarge is returned for more than 2^32-1 edges, which is more than an index in memory
	// holds.
	ErrTooLarge = errors.New("ownergraph: more than 2^32-1 edges in memory")
)

// Lists holds lists of numbers back to back: list i is Items[Starts[i]:Starts[i+1]].
type Lists struct {
	Starts []uint32 // one more than lists, from 0
	Items  []uint32 // of list 0, of list 1, …
}

// Len returns the number of lists.
func (l *Lists) Len() int { return len(l.Starts) - 1 }

// At returns list i, which is a part of l.
func (l *Lists) At(i int) []uint32 { return l.Items[l.Starts[i]:l.Starts[i+1]] }

// group returns for each of n keys the values that go with it, in their order.
func group(keys, values []uint32, n int) Lists {
	l := Lists{Starts: make([]uint32, n+1), Items: make([]uint32, len(values))}
	for _, k := range keys {
		l.Starts[k+1]++
	}
	for k := range n {
		l.Starts[k+1] += l.Starts[k]
	}
	next := slices.Clone(l.Starts[:n])
	for i, k := range keys {
		l.Items[next[k]] = values[i]
		next[k]++
	}
	return l
}

// transpose returns for each of n numbers the lists that it is in, ascending, of the lists for
// which use is true or nil.
func (l *Lists) transpose(n int, use func(i int) bool) Lists {
	t := Lists{Starts: make([]uint32, n+1)}
	for i := range l.Len() {
		if use == nil || use(i) {
			for _, v := range l.At(i) {
				t.Starts[v+1]++
			}
		}
	}
	for v := range n {
		t.Starts[v+1] += t.Starts[v]
	}
	t.Items = make([]uint32, t.Starts[n])
	next := slices.Clone(t.Starts[:n])
	for i := range l.Len() {
		if use == nil || use(i) {
			for _, v := range l.At(i) {
				t.Items[next[v]] = uint32(i)
				next[v]++
			}
		}
	}
	return t
}

// Graph is an example–owner graph. Examples and owners are numbered from 0 in the order of their
// ids. Every example has an owner and every owner an example. It is not changed after New.
type Graph struct {
	Examples, Owners IDs   // distinct, ascending
	OwnersOf         Lists // by example: its owners, ascending, at least one
	ExamplesOf       Lists // by owner: its examples, ascending, at least one
	DuplicateEdges   int64 // edges that were merged with an equal one, at least 0
}

// New returns the graph of the given edges, equal edges merged and counted.
func New(e *Edges) (*Graph, error) {
	n := e.Len()
	switch {
	case n < e.Owners.Len():
		return nil, fmt.Errorf("ownergraph: %d owners for %d examples in a batch of edges", e.Owners.Len(), n)
	case n > e.Owners.Len():
		return nil, ErrNoOwners
	case uint64(n) > math.MaxUint32-1:
		return nil, ErrTooLarge
	}
	g := new(Graph)
	var exampleOf, ownerOf []uint32
	g.Examples, exampleOf = distinct(&e.Examples)
	g.Owners, ownerOf = distinct(&e.Owners)

	g.OwnersOf = group(exampleOf, ownerOf, g.Examples.Len())
	g.DuplicateEdges = mergeEqual(&g.OwnersOf)
	g.ExamplesOf = g.OwnersOf.transpose(g.Owners.Len(), nil)
	return g, nil
}

// mergeEqual sorts every list, keeps one of equal numbers, and returns how many went.
func mergeEqual(l *Lists) (merged int64) {
	kept := uint32(0)
	for i := range l.Len() {
		list := l.At(i)
		slices.Sort(list)
		list = slices.Compact(list)
		l.Starts[i] = kept
		kept += uint32(copy(l.Items[kept:], list))
	}
	merged = int64(len(l.Items)) - int64(kept)
	l.Starts[l.Len()] = kept
	l.Items = l.Items[:kept]
	return merged
}

// Edges returns the number of distinct edges.
func (g *Graph) Edges() int64 { return int64(len(g.OwnersOf.Items)) }

// distinct returns the distinct ids of a column, ascending, and for every id of the column its
// number among them.
func distinct(c *IDs) (ids IDs, number []uint32) {
	order := sortIDs(c)
	number = make([]uint32, len(order))
	ids.Reset(c.Type)
	for i, at := range order {
		if i == 0 || c.Compare(int(order[i-1]), c, int(at)) != 0 {
			ids.AppendFrom(c, int(at))
		}
		number[at] = uint32(ids.Len() - 1)
	}
	return ids, number
}

// sortIDs returns the positions of a column in the order of their ids.
func sortIDs(c *IDs) []uint32 {
	order := make([]uint32, c.Len())
	for i := range order {
		order[i] = uint32(i)
	}
	if c.Type == String {
		slices.SortFunc(order, func(a, b uint32) int { return c.Compare(int(a), c, int(b)) })
		return order
	}
	keys := make([]uint64, len(order))
	for i, v := range c.ints {
		keys[i] = uint64(v) ^ 1<<63 // the order of int64
	}
	return sortByKey(keys, order)
}

// sortByKey sorts order stably by keys[i] for the i-th of it. It changes both slices and returns
// the sorted order. Least significant digits first, 11 bits at a time; digits that all keys share
// cost nothing.
func sortByKey(keys []uint64, order []uint32) []uint32 {
	const digit, digits = 11, 6
	var count [digits][1 << digit]uint32
	for _, k := range keys {
		for d := range digits {
			count[d][k>>(d*digit)&(1<<digit-1)]++
		}
	}
	keys2, order2 := make([]uint64, len(keys)), make([]uint32, len(order))
	for d := range digits {
		next := &count[d]
		if len(keys) == 0 || next[keys[0]>>(d*digit)&(1<<digit-1)] == uint32(len(keys)) {
			continue
		}
		sum := uint32(0)
		for i, n := range next {
			next[i], sum = sum, sum+n
		}
		for i, k := range keys {
			at := &next[k>>(d*digit)&(1<<digit-1)]
			keys2[*at], order2[*at] = k, order[i]
			*at++
		}
		keys, keys2, order, order2 = keys2, keys, order2, order
	}
	return order
}

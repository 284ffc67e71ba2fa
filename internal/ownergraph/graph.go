package ownergraph

import (
	"errors"
	"fmt"
	"math"
	"minsep/internal/stream"
	"slices"
)

// Errors of graphs that cannot be used.
var (
	// ErrNoOwners is the error for an example without owners: no owner's bound would hold for it.
	// Examples that nobody owns do not belong in an owner graph.
	ErrNoOwners = errors.New("an example without owners")
	// ErrTooLarge is the error for more than 2^32-2 edges, which is more than an index in memory
	// holds.
	ErrTooLarge = errors.New("more than 2^32-2 edges in memory")
)

// maxEdges is the largest number of edges of a graph in memory: offsets are of 32 bits, and the
// largest one, full, stands for something else.
const maxEdges = math.MaxUint32 - 1

// Lists holds lists of numbers back to back: list i is Items[Starts[i]:Starts[i+1]].
type Lists struct {
	Starts []uint32 // one more than lists, from 0
	Items  []uint32 // of list 0, of list 1, …
}

// Len returns the number of lists.
func (l *Lists) Len() int { return len(l.Starts) - 1 }

// At returns list i, which is a part of l.
func (l *Lists) At(i int) []uint32 { return l.Items[l.Starts[i]:l.Starts[i+1]] }

// group returns for each key 0 to n-1 the values at the places where keys has it, in their order.
// It counts first, so that it allocates each slice once.
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

// transpose returns for each of n numbers the lists that it is in, ascending.
func (l *Lists) transpose(n int) Lists {
	t := Lists{Starts: make([]uint32, n+1), Items: make([]uint32, len(l.Items))}
	for _, v := range l.Items {
		t.Starts[v+1]++
	}
	for v := range n {
		t.Starts[v+1] += t.Starts[v]
	}
	next := slices.Clone(t.Starts[:n])
	for i := range l.Len() {
		for _, v := range l.At(i) {
			t.Items[next[v]] = uint32(i)
			next[v]++
		}
	}
	return t
}

// Graph is an example–owner graph. Examples and owners are numbered from 0 in the order of their
// ids. Every example has an owner and every owner an example. It is not changed once it is made.
type Graph struct {
	Examples, Owners IDs   // distinct, ascending
	OwnersOf         Lists // by example: its owners, ascending, at least one
	DuplicateEdges   int64 // edges that were merged with an equal one, at least 0
}

// New returns the graph of the given edges, equal edges merged and counted. A [Builder] takes less
// memory.
func New(e *Edges) (*Graph, error) {
	return newGraph(e.Examples.Type, []IDs{e.Examples}, e.Owners.Type, []IDs{e.Owners})
}

// newGraph returns the graph of the edges in some pairs of columns, one pair after the other. It
// empties the columns as it goes, so that their memory is free again. The errors are ErrNoOwners,
// ErrTooLarge, and one for columns that do not agree.
func newGraph(example IDType, examples []IDs, owner IDType, owners []IDs) (*Graph, error) {
	n, ofOwners := 0, 0
	for i := range examples {
		n += examples[i].Len()
	}
	for i := range owners {
		ofOwners += owners[i].Len()
	}
	switch {
	case n < ofOwners:
		return nil, fmt.Errorf("%d owners for %d examples in a batch of edges", ofOwners, n)
	case n > ofOwners:
		return nil, ErrNoOwners
	case uint64(n) > maxEdges:
		return nil, ErrTooLarge
	}
	g := new(Graph)
	var exampleOf, ownerOf []uint32
	g.Examples, exampleOf = numbered(example, examples)
	g.Owners, ownerOf = numbered(owner, owners)
	g.OwnersOf = group(exampleOf, ownerOf, g.Examples.Len())
	g.DuplicateEdges = mergeEqual(&g.OwnersOf)
	return g, nil
}

// mergeEqual sorts every list, keeps one of equal numbers, and returns the number of those that it
// removed.
func mergeEqual(l *Lists) (merged int64) {
	kept, start := uint32(0), uint32(0)
	for i := range l.Len() {
		end := l.Starts[i+1]
		list := l.Items[start:end]
		switch {
		case len(list) == 2 && list[0] > list[1]:
			list[0], list[1] = list[1], list[0]
		case len(list) > 2:
			slices.Sort(list)
		}
		l.Starts[i] = kept
		for j, v := range list {
			if j == 0 || v != list[j-1] {
				l.Items[kept] = v
				kept++
			}
		}
		start = end
	}
	merged = int64(len(l.Items)) - int64(kept)
	l.Starts[l.Len()] = kept
	l.Items = l.Items[:kept]
	return merged
}

// Edges returns the number of distinct edges.
func (g *Graph) Edges() int64 { return int64(len(g.OwnersOf.Items)) }

// ExamplesOf returns the examples of each owner, ascending, at least one. Every call computes the
// lists again.
func (g *Graph) ExamplesOf() Lists { return g.OwnersOf.transpose(g.Owners.Len()) }

// MissingOwners returns the owner ids that stand for an unknown owner, ascending. All examples of such
// an id count as one owner's, and the bound keeps few.
func (g *Graph) MissingOwners() (ids []string) {
	if g.Owners.Type == Int64 {
		return nil
	}
	for i := range g.Owners.Len() {
		if _, found := slices.BinarySearch(missing, string(g.Owners.Bytes(i))); found {
			ids = append(ids, g.Owners.Format(i))
		}
	}
	return ids
}

// Given counts the graph before it is bounded.
func (g *Graph) Given() Summary {
	n := given{ofOwner: make([]uint64, g.Owners.Len())}
	for e := range g.Examples.Len() {
		n.add(g.OwnersOf.At(e))
	}
	return n.summary(g.DuplicateEdges)
}

// order returns the examples in the order of o: by class, then by priority, the first 64 bits of
// their address under key, then by id.
func (g *Graph) order(o Order, key stream.Key) []uint32 {
	src := stream.NewSource(key)
	keys, order := make([]uint64, g.Examples.Len()), make([]uint32, g.Examples.Len())
	for i := range keys {
		keys[i], order[i] = g.Examples.Address(src, i, 0).Uint64(), uint32(i)
	}
	keys, order = sortDigits(keys, order, 64)
	for i, e := range order {
		keys[i] = uint64(o.Class(int64(g.OwnersOf.Starts[e+1] - g.OwnersOf.Starts[e])))
	}
	const classBits = 8
	_, order = sortDigits(keys, order, classBits) // which is stable: equal classes stay in their order
	return order
}

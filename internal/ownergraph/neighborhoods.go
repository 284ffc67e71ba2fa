package ownergraph

import (
	"cmp"
	"slices"
)

// Neighborhoods returns |N(e)| for every example e of g if each is taken copies[e] times, and 0 for
// an example that is not taken. N(e) is the set of examples that share an owner with e, e included
// (F4). Every copy counts as an example.
func (g *Graph) Neighborhoods(copies []uint32) []int64 {
	sizes := make([]int64, len(copies))
	for e, c := range copies {
		sizes[e] = int64(c)
	}
	g.sharing(copies).count(sizes)
	return sizes
}

// sharing has the examples that are taken and share an owner with another one, numbered from 0 in
// their order. All other examples are their own neighbourhood.
type sharing struct {
	examples []uint32 // their numbers in the graph
	copies   []uint32 // by example
	owners   Lists    // by example: its shared owners, as the graph numbers them
	of       int      // number of owners of the graph
}

// sharing finds the examples that share an owner if each is taken copies[e] times.
func (g *Graph) sharing(copies []uint32) *sharing {
	taken := make([]uint32, g.Owners.Len())
	for e, c := range copies {
		if c > 0 {
			for _, u := range g.OwnersOf.At(e) {
				taken[u]++
			}
		}
	}
	s := &sharing{of: len(taken)}
	shared := func(e int) (n int) {
		for _, u := range g.OwnersOf.At(e) {
			if taken[u] > 1 {
				n++
			}
		}
		return n
	}
	examples, items := 0, 0 // counted first: lists that grow would take twice the memory
	for e, c := range copies {
		if c > 0 {
			n := shared(e)
			items += n
			examples += min(n, 1)
		}
	}
	s.examples, s.copies = make([]uint32, 0, examples), make([]uint32, 0, examples)
	s.owners = Lists{Starts: make([]uint32, 1, examples+1), Items: make([]uint32, 0, items)}
	for e, c := range copies {
		if c == 0 || shared(e) == 0 {
			continue
		}
		for _, u := range g.OwnersOf.At(e) {
			if taken[u] > 1 {
				s.owners.Items = append(s.owners.Items, u)
			}
		}
		s.examples, s.copies = append(s.examples, uint32(e)), append(s.copies, c)
		s.owners.Starts = append(s.owners.Starts, uint32(len(s.owners.Items)))
	}
	return s
}

// count sets the sizes of the neighbourhoods. It returns the number of list entries that it added to
// unions, for tests.
//
// N(e) is the union of the lists of e's owners. The owners of each example are put in one order, by
// falling number of examples, and the examples are taken in the order of these sequences. An
// example and the next one then share a prefix of owners, and the union of the prefix is kept. So
// an owner's list is added once for every prefix that ends with the owner: the list of an owner of
// nearly all examples is added about once, not once for each of its examples. This is never more
// work than adding the lists of every example's owners afresh.
func (s *sharing) count(sizes []int64) (added int64) {
	owners := s.largestFirst()
	lists := owners.transpose(s.of)
	u := union{lists: &lists, copies: s.copies, addedBy: make([]uint32, len(s.examples))}
	for _, i := range owners.sorted(s.of) {
		list := owners.At(int(i))
		shared := 0
		for shared < min(len(list), len(u.path)) && list[shared] == u.path[shared] {
			shared++
		}
		u.cut(shared)
		for _, owner := range list[shared:] {
			u.add(owner)
		}
		sizes[s.examples[i]] = u.sizes[len(u.sizes)-1]
	}
	return u.added
}

// largestFirst numbers the owners from 0 by falling number of examples, and returns the owners of
// every example in these numbers, ascending.
func (s *sharing) largestFirst() Lists {
	taken := make([]uint32, s.of)
	for _, u := range s.owners.Items {
		taken[u]++
	}
	order := make([]uint32, len(taken))
	for u := range order {
		order[u] = uint32(u)
	}
	slices.SortFunc(
		order,
		func(a, b uint32) int { return cmp.Or(cmp.Compare(taken[b], taken[a]), cmp.Compare(a, b)) },
	)
	number := taken // its counts are not needed again
	for i, u := range order {
		number[u] = uint32(i)
	}
	l := Lists{Starts: s.owners.Starts, Items: make([]uint32, len(s.owners.Items))}
	for i, u := range s.owners.Items {
		l.Items[i] = number[u]
	}
	for e := range l.Len() {
		slices.Sort(l.At(e))
	}
	return l
}

// sorted returns the numbers of the lists in lexical order of the lists. No list is empty, and all
// items are below n. It groups by first items before it compares: most lists differ there.
func (l *Lists) sorted(n int) []uint32 {
	first, order := make([]uint32, l.Len()), make([]uint32, l.Len())
	for i := range order {
		first[i], order[i] = l.At(i)[0], uint32(i)
	}
	byFirst := group(first, order, n)
	for i := range n {
		slices.SortFunc(byFirst.At(i), func(a, b uint32) int { return slices.Compare(l.At(int(a)), l.At(int(b))) })
	}
	return byFirst.Items
}

// union is the union of a stack of lists of examples: the last lists can be removed again.
type union struct {
	lists   *Lists
	copies  []uint32 // by example
	path    []uint32 // the lists, in the order in which they were added
	sizes   []int64  // the copies in the first list, in the first two, …
	addedBy []uint32 // by example: 1 + the place in path of the first list that has it; 0 if none has
	added   int64    // entries of lists that were added so far
}

// add puts a list on the stack.
func (u *union) add(list uint32) {
	size := int64(0)
	if len(u.sizes) > 0 {
		size = u.sizes[len(u.sizes)-1]
	}
	u.path = append(u.path, list)
	by := uint32(len(u.path))
	items := u.lists.At(int(list))
	for _, e := range items {
		if u.addedBy[e] == 0 {
			u.addedBy[e] = by
			size += int64(u.copies[e])
		}
	}
	u.sizes = append(u.sizes, size)
	u.added += int64(len(items))
}

// cut removes all but the first n lists.
func (u *union) cut(n int) {
	for by := len(u.path); by > n; by-- {
		for _, e := range u.lists.At(int(u.path[by-1])) {
			if u.addedBy[e] == uint32(by) {
				u.addedBy[e] = 0
			}
		}
	}
	u.path, u.sizes = u.path[:n], u.sizes[:n]
}

package ownergraph

import (
	"cmp"
	"slices"
)

// Neighborhoods returns |N(e)| for every example e of g when each is taken as often as copies says,
// and 0 for those not taken. N(e) is the set of examples that share an owner with e, e included
// (F4); every copy is an example of its own.
func (g *Graph) Neighborhoods(copies []uint32) []int64 {
	sizes, _ := g.neighborhoods(copies)
	return sizes
}

// neighborhoods also returns how many entries of owners' lists were added to a union.
//
// N(e) is the union of the lists of e's owners. Each example's owners are put in one order, those
// with most examples first, and examples are taken in the order of these sequences of owners: one
// and the next share a prefix, whose union is kept. So an owner's list is added once for every
// prefix that ends with it, and that of an owner of nearly all examples about once, not once for
// each of its examples. That is never more than to add the lists of every example's owners afresh.
func (g *Graph) neighborhoods(copies []uint32) (sizes []int64, added int64) {
	owners := g.largestFirst(copies)
	examples := owners.transpose(g.Owners.Len(), func(e int) bool { return copies[e] > 0 })
	sizes = make([]int64, len(copies))
	u := union{lists: &examples, copies: copies, addedBy: make([]uint32, len(copies))}
	for _, e := range owners.sorted(g.Owners.Len(), copies) {
		list := owners.At(int(e))
		shared := 0
		for shared < min(len(list), len(u.path)) && list[shared] == u.path[shared] {
			shared++
		}
		u.cut(shared)
		for _, owner := range list[shared:] {
			u.add(owner)
		}
		sizes[e] = u.sizes[len(u.sizes)-1]
	}
	return sizes, u.added
}

// largestFirst returns for every example its owners, ascending, where owners are numbered anew:
// from 0 by descending number of examples taken.
func (g *Graph) largestFirst(copies []uint32) Lists {
	taken := make([]uint32, g.Owners.Len())
	for e := range copies {
		if copies[e] > 0 {
			for _, u := range g.OwnersOf.At(e) {
				taken[u]++
			}
		}
	}
	order := make([]uint32, len(taken))
	for u := range order {
		order[u] = uint32(u)
	}
	slices.SortFunc(order, func(a, b uint32) int { return cmp.Or(cmp.Compare(taken[b], taken[a]), cmp.Compare(a, b)) })
	number := taken // its counts are not needed again
	for i, u := range order {
		number[u] = uint32(i)
	}
	l := Lists{Starts: g.OwnersOf.Starts, Items: make([]uint32, len(g.OwnersOf.Items))}
	for i, u := range g.OwnersOf.Items {
		l.Items[i] = number[u]
	}
	for e := range copies {
		slices.Sort(l.At(e))
	}
	return l
}

// sorted returns the numbers of the lists whose copies are not 0, in the order of the lists. All
// items are below n.
func (l *Lists) sorted(n int, copies []uint32) []uint32 {
	var first, order []uint32
	for i, c := range copies {
		if c > 0 {
			first, order = append(first, l.At(i)[0]), append(order, uint32(i))
		}
	}
	byFirst := group(first, order, n)
	for i := range n {
		slices.SortFunc(byFirst.At(i), func(a, b uint32) int { return slices.Compare(l.At(int(a)), l.At(int(b))) })
	}
	return byFirst.Items
}

// union is the union of some lists of examples, from which the last lists can be taken again.
type union struct {
	lists   *Lists
	copies  []uint32 // by example
	path    []uint32 // the lists, in the order in which they were added
	sizes   []int64  // the copies in the first list, in the first two, …
	addedBy []uint32 // by example: 1 + the place in path of the list that added it; 0 if none did
	added   int64    // entries of lists that were added so far
}

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

// cut takes all but the first n lists out of the union.
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

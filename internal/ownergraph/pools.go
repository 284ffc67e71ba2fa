package ownergraph

import (
	"math"
	"slices"

	"minsep/internal/stream"
)

// MaxPools is the greatest number of pools of a [Bound].
const MaxPools = 1 << 12

// Pools are pools for rotation (F3.12): sets of examples, with at most one example of an owner
// in each.
//
// They are filled one after the other, each from the whole graph, by the greedy pass of [Bound]
// with room for one example of each owner. Examples in fewer of the pools so far come first, and
// equally used ones in the order of the bound. So a pool, before it is cut, could take no further
// example. Then all pools are cut to the size of the smallest, in their order. A pool that is too
// large loses the examples that are in the most pools at that time, and of equally used ones the
// last in the order of the bound.
type Pools struct {
	Of    Lists   // by example: its pools, ascending, from 0; may be empty
	Sizes []int64 // by pool: its examples before it was cut
	Cut   int64   // examples that are in no pool because it was cut
}

// FillPools makes n pools, 1 to [MaxPools], of a graph with the given number of owners. Examples
// are numbered in the order of the bound, and owners has the owners of each. It returns
// [ErrTooLarge] for 2^32-1 places in pools or more.
func FillPools(owners *Lists, of, n int) (*Pools, error) {
	examples := owners.Len()
	used, filled, order := make([]uint16, examples), make([]uint32, examples), make([]uint32, examples)
	rooms := make([]uint32, of)
	pools, p := make([][]uint32, n), &Pools{Sizes: make([]int64, n)}
	for i := range pools {
		leastUsed(used, order, i)
		for u := range rooms {
			rooms[u] = 1
		}
		clear(filled)
		Fill(owners, order, rooms, filled, 1)
		for e, in := range filled {
			p.Sizes[i] += int64(in)
			used[e] += uint16(in)
		}
		pools[i] = make([]uint32, 0, p.Sizes[i])
		for e, in := range filled {
			if in > 0 {
				pools[i] = append(pools[i], uint32(e))
			}
		}
	}
	size := int(slices.Min(p.Sizes))
	if uint64(n)*uint64(size) > maxEdges {
		return nil, ErrTooLarge
	}
	for i := range pools {
		pools[i] = p.cut(pools[i], used, size)
	}
	in := Lists{Starts: make([]uint32, n+1), Items: slices.Concat(pools...)}
	for i, pool := range pools {
		in.Starts[i+1] = in.Starts[i] + uint32(len(pool))
	}
	p.Of = in.transpose(examples)
	return p, nil
}

// Copies returns the number of copies of each example: one if it is in any pool.
func (p *Pools) Copies() []uint32 {
	copies := make([]uint32, p.Of.Len())
	for e := range copies {
		copies[e] = uint32(min(1, len(p.Of.At(e))))
	}
	return copies
}

// leastUsed sets order to all examples, by rising number of pools, and equally used ones by number.
// No example is in more than most pools. It is a counting sort.
func leastUsed(used []uint16, order []uint32, most int) {
	next := make([]uint32, most+2)
	for _, times := range used {
		next[times+1]++
	}
	for times := range most {
		next[times+1] += next[times]
	}
	for e, times := range used {
		order[next[times]] = uint32(e)
		next[times]++
	}
}

// cut removes examples from a pool, in place, until it has the given size. It finds how often the
// examples that go are used, and how many of those used exactly that often stay, from counts.
func (p *Pools) cut(pool []uint32, used []uint16, size int) []uint32 {
	if len(pool) == size {
		return pool
	}
	var at [MaxPools + 1]int // examples of the pool by how many pools they are in
	for _, e := range pool {
		at[used[e]]++
	}
	excess, times := len(pool)-size, MaxPools
	for ; at[times] < excess; times-- {
		excess -= at[times]
	}
	stay := at[times] - excess // of those that are in so many pools
	kept := pool[:0]
	for _, e := range pool {
		switch {
		case int(used[e]) < times:
			kept = append(kept, e)
		case int(used[e]) == times && stay > 0:
			kept = append(kept, e)
			stay--
		default:
			if used[e]--; used[e] == 0 {
				p.Cut++
			}
		}
	}
	return kept
}

// pools returns the pools of the examples of g. The parameters must be valid, with b.Pools above 0.
func (b Bound) pools(g *Graph, key stream.Key) (*Pools, error) {
	order := g.order(b.Order, key)
	owners := g.OwnersOf.rearranged(order)
	p, err := FillPools(&owners, g.Owners.Len(), b.Pools)
	if err != nil {
		return nil, err
	}
	place := make([]uint32, len(order))
	for i, e := range order {
		place[e] = uint32(i)
	}
	p.Of = p.Of.rearranged(place)
	return p, nil
}

// rearranged returns the lists in another order: order[i] is the number of list i of the result.
func (l *Lists) rearranged(order []uint32) Lists {
	to := Lists{Starts: make([]uint32, 1, len(l.Starts)), Items: make([]uint32, 0, len(l.Items))}
	for _, i := range order {
		to.Items = append(to.Items, l.At(int(i))...)
		to.Starts = append(to.Starts, uint32(len(to.Items)))
	}
	return to
}

// Coverage says how much of a graph its pools use.
type Coverage struct {
	Pools      int       `json:"pools"`             // at least 1
	Size       int64     `json:"pool_size"`         // examples of each pool; at least 0, as are all counts
	BeforeCut  []int64   `json:"sizes_before_cut"`  // by pool: examples before all were cut to the smallest
	Distinct   []int64   `json:"distinct_examples"` // in the first pool, in the first two, …: each counted once
	PerExample Histogram `json:"pools_per_example"` // over the examples given: pools, from 0
	DroppedCut int64     `json:"dropped_cut"`       // examples in no pool since it was cut; the others in none met an owner who was full each time
}

// Coverage counts the examples of the pools.
func (p *Pools) Coverage() *Coverage {
	c := &Coverage{
		Pools:      len(p.Sizes),
		Size:       slices.Min(p.Sizes),
		BeforeCut:  p.Sizes,
		Distinct:   make([]int64, len(p.Sizes)),
		DroppedCut: p.Cut,
	}
	var perExample Tally
	for e := range p.Of.Len() {
		in := p.Of.At(e)
		perExample.Add(int64(len(in)), 1)
		if len(in) > 0 {
			c.Distinct[in[0]]++
		}
	}
	for i := 1; i < len(c.Distinct); i++ {
		c.Distinct[i] += c.Distinct[i-1]
	}
	c.PerExample = perExample.Histogram()
	return c
}

// Most returns the largest number of pools of an example, at least 0.
func (c *Coverage) Most() int64 {
	return c.PerExample.Most()
}

const _ = uint(math.MaxUint16 - MaxPools) // fails to compile if 16 bits cannot count an example's pools

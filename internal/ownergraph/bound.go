package ownergraph

import (
	"math"
	"strings"

	"minsep/internal/param"
	"minsep/internal/stream"
)

// Bound bounds how much of one owner's data a run uses (F4; arXiv 2602.09338,
// section 6).
//
// Examples are taken in the order of Order. Examples that Order does not tell apart are taken by
// priority, the first 64 bits of the keyed hash of their id ([IDs.Address]), and examples of equal
// priority by id. An example is kept if and only if each of its owners has room: the owner owns
// fewer than MaxExamplesPerOwner of the examples kept before it. With Duplicates, further passes go
// through the kept examples in the same order, and add one copy of each example if all its owners
// still have room, until a pass adds nothing. Room never comes back, so an example that once
// found an owner full finds it full in every later pass.
//
// With MaxNeighborhood k_e > 0, the examples e with a neighbourhood |N(e)| above k_e in the graph
// bounded so far are then dropped, all at once. A drop only makes other neighbourhoods smaller. So
// every |N(e)| of the result is at most k_e, and the outcome depends on no order. The room that
// dropped examples leave is not filled again.
//
// The result is a function of the graph and the key.
type Bound struct {
	MaxExamplesPerOwner int   `json:"max_examples_per_owner" flag:"max-per-owner" help:"keep at most this many examples of each owner"`                                                                                                         // k_u, at least 1; copies count
	Duplicates          bool  `json:"duplicates" flag:"duplicates" help:"go through the kept examples again, and add copies of them until no copy fits"`                                                                                        // go through the kept examples again, adding copies
	MaxNeighborhood     int   `json:"max_neighborhood,omitempty" flag:"max-neighborhood" help:"drop an example that shares owners with more examples than this, itself included (default: no limit)"`                                           // k_e; 0 for no bound
	Order               Order `json:"order"`                                                                                                                                                                                                    // in which examples are taken
	Pools               int   `json:"pools,omitempty" flag:"pools" help:"for --scheme rotation: make this many pools in place of one table; an owner has at most one example in a pool, and pools share examples only where there are too few"` // number of [Pools] for rotation; needs 1 example per owner and no copies; 0 for none
}

// PriorityPurpose is the purpose of the key from which the order of examples is drawn.
const PriorityPurpose = "bound: priority"

// Validate reports every fault of b.
func (b Bound) Validate() error {
	c := param.Checker{}
	c.Require(
		b.Pools > 0 || b.MaxExamplesPerOwner >= 1 && b.MaxExamplesPerOwner <= math.MaxInt32,
		"max examples per owner",
		b.MaxExamplesPerOwner,
		"must be from 1 to 2147483647",
	)
	c.Require(b.MaxNeighborhood >= 0, "max neighborhood", b.MaxNeighborhood, "must be at least 1")
	c.Require(int(b.Order) < len(Orders), "order", b.Order, "must be "+strings.Join(Orders, " or "))
	c.Requiref(b.Pools >= 0 && b.Pools <= MaxPools, "pools", b.Pools, "must be from 1 to %d", MaxPools)
	if b.Pools > 0 {
		c.Require(
			b.MaxExamplesPerOwner == 1,
			"max examples per owner",
			b.MaxExamplesPerOwner,
			"must be 1 with pools: an owner has at most one example in a pool",
		)
		c.Require(
			!b.Duplicates,
			"duplicates",
			b.Duplicates,
			"must be left out with pools: an example is in a pool once",
		)
		c.Require(
			b.MaxNeighborhood == 0,
			"max neighborhood",
			b.MaxNeighborhood,
			"must be left out with pools: examples of a pool share no owner",
		)
	}
	return c.Err()
}

// OwnerLimit returns how many examples of an owner are kept at most, in all pools together.
func (b Bound) OwnerLimit() int { return b.MaxExamplesPerOwner * max(1, b.Pools) }

// MaxCopies returns the largest number of copies of one example.
func (b Bound) MaxCopies() uint32 {
	if b.Duplicates {
		return uint32(b.MaxExamplesPerOwner)
	}
	return 1
}

// Bounded is a graph after bounding.
type Bounded struct {
	Graph   *Graph   // the whole graph, or the examples that a [Pass] kept
	Copies  []uint32 // by example of Graph: the number of its kept copies, 0 if it is dropped
	Pools   *Pools   // nil without pools; with pools, an example in any of them has one copy
	Summary Summary  // counts of examples given, kept and dropped
}

// Greedy bounds g, one example after the other. It is the reference for the distributed transform,
// which must give the same bytes. An invalid b is a *param.Error, too many places in pools
// [ErrTooLarge].
func (b Bound) Greedy(g *Graph, key stream.Key) (*Bounded, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	r := &Bounded{Graph: g, Summary: g.Given()}
	if b.Pools == 0 {
		r.Copies = b.Copies(g, key)
	} else {
		var err error
		if r.Pools, err = b.pools(g, key); err != nil {
			return nil, err
		}
		r.Copies = r.Pools.Copies()
	}
	r.summarize(b)
	return r, nil
}

// Copies does the passes of Greedy, without pools and before any look at neighbourhoods. It returns
// the number of kept copies by example. The parameters must be valid.
func (b Bound) Copies(g *Graph, key stream.Key) []uint32 {
	copies, rooms := make([]uint32, g.Examples.Len()), b.rooms(g.Owners.Len())
	Fill(&g.OwnersOf, g.order(b.Order, key), rooms, copies, b.MaxCopies())
	return copies
}

// rooms has the number of examples that each owner may have.
func (b Bound) rooms(owners int) []uint32 {
	rooms := make([]uint32, owners)
	for i := range rooms {
		rooms[i] = uint32(b.MaxExamplesPerOwner)
	}
	return rooms
}

// Pass is the first greedy pass of [Bound] over examples that come one by one, in its order. It holds
// the owners of the examples that it keeps, for graphs of which no more fits into memory.
type Pass struct {
	bound  Bound
	owners Lists // of the kept examples, in the order in which they came
	rooms  []uint32
	given  given
}

// NewPass returns the pass over a graph with a number of owners. It makes no pools.
func (b Bound) NewPass(owners int) *Pass {
	return &Pass{
		bound:  b,
		owners: Lists{Starts: []uint32{0}},
		rooms:  b.rooms(owners),
		given:  given{ofOwner: make([]uint64, owners)},
	}
}

// Add considers the next example, and says whether it is kept. It returns [ErrTooLarge] if kept
// examples have 2^32-1 owners together or more.
func (p *Pass) Add(owners []uint32) (kept bool, err error) {
	p.given.add(owners)
	if !take(owners, p.rooms) {
		return false, nil
	}
	if uint64(len(p.owners.Items)+len(owners)) >= math.MaxUint32 {
		return false, ErrTooLarge
	}
	p.owners.Items = append(p.owners.Items, owners...)
	p.owners.Starts = append(p.owners.Starts, uint32(len(p.owners.Items)))
	return true, nil
}

// Bounded does all that follows. The graph has the kept examples in the order in which they came,
// without their ids, and the given owners. It is called once, after the last example.
func (p *Pass) Bounded(owners IDs, duplicateEdges int64) *Bounded {
	copies, order := make([]uint32, p.owners.Len()), make([]uint32, p.owners.Len())
	for e := range copies {
		copies[e], order[e] = 1, uint32(e)
	}
	Fill(&p.owners, order, p.rooms, copies, p.bound.MaxCopies())
	r := &Bounded{
		Graph:   &Graph{Owners: owners, OwnersOf: p.owners},
		Copies:  copies,
		Summary: p.given.summary(duplicateEdges),
	}
	p.rooms, p.given = nil, given{} // their memory is needed for the neighbourhoods
	r.summarize(p.bound)
	return r
}

// Fill does the greedy passes of [Bound], from any state. owners has the owners of each example,
// order the examples to consider, in their order, rooms the number of further examples that each
// owner may have, and copies the number of kept copies by example. An example with c copies waits
// for pass c; pass most-1 is the last. Fill changes rooms and copies.
func Fill(owners *Lists, order, rooms, copies []uint32, most uint32) {
	live := order
	for pass := uint32(0); pass < most && len(live) > 0; pass++ {
		for _, e := range live {
			if copies[e] == pass && take(owners.At(int(e)), rooms) {
				copies[e]++
			}
		}
		if pass+1 == most {
			return
		}
		if pass == 0 {
			live = make([]uint32, 0, len(order))
		} else {
			live = live[:0]
		}
		for _, e := range order {
			if copies[e] > pass {
				live = append(live, e)
			}
		}
		order = live
	}
}

// take uses one place of each owner of an example if all have room, and none otherwise.
func take(owners, rooms []uint32) bool {
	for _, u := range owners {
		if rooms[u] == 0 {
			return false
		}
	}
	for _, u := range owners {
		rooms[u]--
	}
	return true
}

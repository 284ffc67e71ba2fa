package ownergraph

import (
	"fmt"
	"math/bits"

	"minsep/sampling/stream"
)

// Order is the order in which [Bound] goes through the examples. The graph is public, so an order
// may look at it in any way, and at coins that are used for nothing else; it must not look at
// secrets, such as who takes part when.
type Order uint8

const (
	// FewestOwners takes the examples with the fewest owners first, and equal ones at random;
	// [ManyOwners] owners and more count alike. An example that is kept takes room from each of
	// its owners, so this keeps more examples than a random order, and favours examples with
	// few owners.
	FewestOwners Order = iota
	// Random takes the examples at random, whatever their owners. One with many owners still finds
	// one of them full more often than one with few.
	Random
)

// ManyOwners is the number of owners from which on [FewestOwners] takes examples for equal.
const ManyOwners = 255

// Orders are the orders by their names.
var Orders = []string{"fewest-owners", "random"}

func (o Order) String() string {
	if int(o) < len(Orders) {
		return Orders[o]
	}
	return fmt.Sprintf("Order(%d)", uint8(o))
}

// MarshalText writes a name of [Orders].
func (o Order) MarshalText() ([]byte, error) { return []byte(o.String()), nil }

// UnmarshalText reads the output of MarshalText.
func (o *Order) UnmarshalText(b []byte) error {
	for i, name := range Orders {
		if string(b) == name {
			*o = Order(i)
			return nil
		}
	}
	return fmt.Errorf("ownergraph: order %q: must be fewest-owners or random", b)
}

// Class is the class of an example with so many owners: classes are gone through in their order,
// and examples of one class at random.
func (o Order) Class(owners int64) uint8 {
	if o == Random {
		return 0
	}
	return uint8(min(owners, ManyOwners))
}

// order returns the examples in the order of o: by class, then by priority, the first 64 bits of
// their address under key, then by id.
func (g *Graph) order(o Order, key stream.Key) []uint32 {
	src := stream.NewSource(key)
	priority := func(e uint32) uint64 { return g.Examples.Address(src, int(e), 0).Uint64() }
	// A key is the class and all but the last bits of the priority. To sort by the first bits of
	// random keys, so many that few keys agree in them, leaves little to move.
	const classBits = 8
	keys, order := make([]uint64, g.Examples.Len()), make([]uint32, g.Examples.Len())
	for i := range keys {
		class := o.Class(int64(g.OwnersOf.Starts[i+1] - g.OwnersOf.Starts[i]))
		keys[i], order[i] = uint64(class)<<(64-classBits)|priority(uint32(i))>>classBits, uint32(i)
	}
	keys, order = sortDigits(keys, order, 64-classBits-bits.Len(uint(len(keys))), 64)
	settle(keys, order, priority)
	return order
}

// settle sorts order, which is nearly sorted, and keys with it, stably: by keys, and equal ones by
// priority.
func settle(keys []uint64, order []uint32, priority func(e uint32) uint64) {
	for i := 1; i < len(keys); i++ {
		for j := i; j > 0 && (keys[j] < keys[j-1] || keys[j] == keys[j-1] && priority(order[j]) < priority(order[j-1])); j-- {
			keys[j], keys[j-1], order[j], order[j-1] = keys[j-1], keys[j], order[j-1], order[j]
		}
	}
}

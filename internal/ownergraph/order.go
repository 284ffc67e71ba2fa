package ownergraph

import (
	"fmt"
	"strings"

	"minsep/internal/param"
)

// Order is the order in which [Bound] takes the examples. The graph is public, so an order may
// depend on it in any way, and on coins that serve nothing else. It must not depend on secrets,
// such as who takes part when.
type Order uint8

const (
	// FewestOwners takes the examples with the fewest owners first, and examples with equally many
	// at random; [ManyOwners] owners and more count alike. A kept example takes room from each of
	// its owners. So this order keeps more examples than a random one, and favours examples with
	// few owners.
	FewestOwners Order = iota
	// Random takes the examples at random, whatever their owners. An example with many owners still
	// finds one of them full more often than an example with few.
	Random
)

// ManyOwners is the number of owners from which [FewestOwners] tells examples apart no more: a
// class is one byte.
const ManyOwners = 255

// Orders has the names of the orders, by their values.
var Orders = []string{"fewest-owners", "random"}

// String returns a name of [Orders].
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
	return param.Fault("order", string(b), "must be %s", strings.Join(Orders, " or "))
}

// Class returns the class of an example with this number of owners. Lower classes come first, and
// examples of one class come at random.
func (o Order) Class(owners int64) uint8 {
	if o == Random {
		return 0
	}
	return uint8(min(owners, ManyOwners))
}

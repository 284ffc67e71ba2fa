package audit_test

import (
	"fmt"

	"minsep/audit"
)

// A training that forgets its noise is told apart from one that keeps it.
func ExampleNewBound() {
	with, without := make([]float64, 2000), make([]float64, 2000)
	for i := range with {
		with[i], without[i] = 2, -2 // log likelihood ratios, with and without the canary
	}
	bound := audit.NewBound(with, without, 1, 1e-2)
	fmt.Printf("more than 1: %t\n", bound.Epsilon > 1)
	// Output:
	// more than 1: true
}

package planner_test

import (
	"fmt"

	"minsep/internal/planner"
)

// The batch sizes that are tried between 128 and 1024.
func ExampleBatchSizes() {
	fmt.Println(planner.BatchSizes(128, 1024))
	// Output:
	// [128 181 256 362 512 724 1024]
}

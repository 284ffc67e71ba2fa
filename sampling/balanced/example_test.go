package balanced_test

import (
	"fmt"

	"minsep/sampling/balanced"
)

// An example takes part three times in ten steps, at least two steps apart. The rate is 3/10 at
// every step, though the probability for an example that may take part depends on how often it
// still has to, and on how many steps are left.
func Example() {
	distribution, err := balanced.New(10, 2, 3)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("first step, three participations left: %.4f\n", distribution.Hazard(3, 0))
	fmt.Printf("last step, one left: %.4f\n", distribution.Hazard(1, 9))
	fmt.Printf("none in the first three steps: %.4f\n", distribution.Quiet(3, 0, 3))
	fmt.Println("by the word 2^63 the first participation is at step", distribution.Next(3, 0, 1<<63))
	// Output:
	// first step, three participations left: 0.3000
	// last step, one left: 1.0000
	// none in the first three steps: 0.1907
	// by the word 2^63 the first participation is at step 1
}

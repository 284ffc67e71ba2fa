package pld_test

import (
	"fmt"
	"slices"

	"minsep/internal/accounting/pld"
)

// DP-SGD: 1000 steps, each example in a batch with probability 0.01, noise multiplier 1.
func ExampleCompose() {
	step := pld.Release{Prob: 0.01, NoiseMultiplier: 1, Sensitivity: 1, Examples: 1}
	c, err := pld.Compose([]pld.Step{{Event: step, Count: 1000}}, pld.Options{Grid: 1e-4})
	if err != nil {
		fmt.Println(err)
		return
	}
	epsilon, err := c.Epsilon(1e-5)
	fmt.Printf("epsilon %.4f %v\n", epsilon, err)
	// Output:
	// epsilon 1.8282 <nil>
}

// The noise multiplier of BandMF with cyclic Poisson sampling: 64 steps, 4 bands, a sixteenth of
// the examples a step.
func ExampleSearch() {
	norms := slices.Repeat([]float64{1}, 64)
	sigma, err := pld.Search{Least: 0, Start: 1, Step: 0.7, Width: 1e-6}.Calibrate(1e-3, func(sigma float64) (float64, error) {
		each := pld.Release{Prob: 0.25, NoiseMultiplier: sigma, Examples: 1}
		c, err := pld.Compose(pld.Cyclic(each, norms, 4), pld.Options{})
		if err != nil {
			return 0, err
		}
		return c.Delta(2)
	})
	fmt.Printf("%.4f %v\n", sigma, err)
	// Output:
	// 1.7280 <nil>
}

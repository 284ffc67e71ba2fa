package pld_test

import (
	"fmt"

	"minsep/internal/accounting/pld"
)

// DP-SGD: 1000 steps, each example in a batch with probability 0.01, noise multiplier 1.
func ExampleCompose() {
	step := pld.Event{Prob: 0.01, NoiseMultiplier: 1, Sensitivity: 1, Examples: 1}
	c, err := pld.Compose([]pld.Step{{Event: step, Count: 1000}}, pld.Options{Grid: 1e-4})
	if err != nil {
		fmt.Println(err)
		return
	}
	epsilon, err := c.Epsilon(1e-5)
	fmt.Printf("epsilon between %.4f and %.4f %v\n", epsilon.Lower, epsilon.Upper, err)
	// Output:
	// epsilon between 1.8282 and 1.8282 <nil>
}

// The noise multiplier of BandMF with cyclic Poisson sampling: 64 steps, 4 bands, a sixteenth of
// the examples a step.
func ExampleCalibrate() {
	sigma, err := pld.Calibrate(2, 1e-3, 0, func(sigma float64) (*pld.Composition, error) {
		return pld.CyclicPoisson{Prob: 0.25, Steps: 64, MinSep: 4, NoiseMultiplier: sigma}.Compose(pld.Options{})
	})
	fmt.Printf("%.4f %v\n", sigma.Upper, err)
	// Output:
	// 1.7280 <nil>
}

package accounting_test

import (
	"fmt"

	"minsep/accounting"
)

// A strategy of sensitivity 2 without amplification, at (1, 1e-6).
func Example_gaussian() {
	sigma, err := accounting.GaussianNoiseMultiplier(1, 1e-6, 2)
	fmt.Printf("noise multiplier %.4f %v\n", sigma, err)
	delta, err := accounting.Gaussian{Sensitivity: 2, NoiseMultiplier: sigma}.Delta(2)
	fmt.Printf("delta at epsilon 2: %.2e %v\n", delta, err)
	// Output:
	// noise multiplier 8.4494 <nil>
	// delta at epsilon 2: 1.08e-18 <nil>
}

package accounting_test

import (
	"fmt"

	"minsep/internal/accounting"
	"minsep/mechanism"
	"minsep/sampling"
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

// How many samples it takes to certify δ = 1e-8 with values of at most M = 1e-6, accepting means up
// to δ': the larger δ', the smaller the noise multiplier.
func ExampleClaim_Samples() {
	claim := accounting.Claim{Delta: 1e-8}
	for _, share := range []float64{0.5, 0.8, 0.9} {
		t, samples, err := claim.Samples(share*claim.Delta, []float64{1e-6})
		fmt.Printf("accept %.1e: %d samples, verify %.2e, q %.1e %v\n", t.Accept, samples[0], t.Verify, t.FailureProbability, err)
	}
	// Output:
	// accept 5.0e-09: 15364 samples, verify 9.86e-09, q 1.4e-10 <nil>
	// accept 8.0e-09: 114616 samples, verify 9.96e-09, q 4.5e-11 <nil>
	// accept 9.0e-09: 490167 samples, verify 9.98e-09, q 2.1e-11 <nil>
}

// A certificate without samples: BandMF with cyclic Poisson sampling, by its privacy loss
// distribution.
func ExampleProtocol_Certificate() {
	run := accounting.Run{
		Sampler:             sampling.Spec{CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.25, Steps: 64, MinSep: 4}},
		Strategy:            &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 64, Toeplitz: []float64{1, 0.5}},
		MaxExamplesPerOwner: 1,
	}
	method, err := run.Method()
	if err != nil {
		fmt.Println(err)
		return
	}
	const sigma, epsilon, delta = 2.0, 2.0, 1e-3
	pq, qp, err := run.Prove(sigma, epsilon)
	if err != nil {
		fmt.Println(err)
		return
	}
	protocol := &accounting.Protocol{
		Format: 1, Run: run, CodeVersion: "example",
		Points: []accounting.Point{{Epsilon: epsilon, Delta: delta, Thresholds: accounting.Thresholds{Verify: delta}}},
		Candidates: []accounting.Candidate{{NoiseMultiplier: sigma, Trials: []accounting.Trial{
			{Direction: "P", Method: method, Bound: pq.Upper},
			{Direction: "Q", Method: method, Bound: qp.Upper},
		}}},
	}
	c, err := protocol.Certificate(nil)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("(%g, %g)-DP at noise multiplier %g: %s, %s\n", c.Epsilon, c.Delta, c.NoiseMultiplier, c.Status, c.Method)
	// Output:
	// (2, 0.001)-DP at noise multiplier 2: verified, pld
}

package montecarlo_test

import (
	"context"
	"fmt"
	"log"

	"minsep/internal/montecarlo"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

// The δ of b-min-sep sampling at ε = 2, estimated in both directions: the larger one counts. An
// estimate is no certificate.
func Example() {
	law, err := sampling.BMinSep{Steps: 64, MinSep: 4, Prob: 0.0625, WarmStart: true}.Law().Tabulate(64)
	if err != nil {
		log.Fatal(err)
	}
	spec := montecarlo.Spec{
		Law: law, NoiseMultiplier: 1,
		Strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 64, Toeplitz: []float64{0.82, 0.41, 0.31, 0.25}},
	}
	key := stream.PublicKey("example", nil)
	for _, direction := range montecarlo.Directions {
		sampler, err := montecarlo.NewSampler(spec, direction, key)
		if err != nil {
			log.Fatal(err)
		}
		const epsilon, samples = 2, 1 << 16
		sum, err := sampler.Sum(context.Background(), epsilon, 0, samples)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Printf("%s: %.2f\n", direction, sum.Mean(samples))
	}
	// Output:
	// P: 0.01
	// Q: 0.00
}

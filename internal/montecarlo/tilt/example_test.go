package tilt_test

import (
	"context"
	"fmt"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/tilt"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

func Example() {
	law, err := sampling.BMinSep{Prob: 0.01, Steps: 200, MinSep: 8, WarmStart: true}.Law().Tabulate(200)
	if err != nil {
		fmt.Println(err)
		return
	}
	spec := montecarlo.Spec{Law: law, NoiseMultiplier: 0.6, Strategy: mechanism.Identity(200)}
	const epsilon = 6

	proposal, err := tilt.NewProposal(context.Background(), tilt.Config{Spec: spec, Epsilon: epsilon, Direction: montecarlo.P})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("every value is at most %.2g\n", proposal.Bound)

	v, err := tilt.NewVerifier(proposal, stream.PublicKey("verify", []byte("example")))
	if err != nil {
		fmt.Println(err)
		return
	}
	const samples = 20_000
	sum, err := v.Sum(context.Background(), 0, samples)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("estimate of H(P,Q): %.2g\n", sum.Mean(samples)*proposal.Bound)

	reverse, err := tilt.NewProposal(context.Background(), tilt.Config{Spec: spec, Epsilon: epsilon, Direction: montecarlo.Q})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("H(Q,P):", reverse.Method)
	// Output:
	// every value is at most 3.7e-06
	// estimate of H(P,Q): 1.3e-07
	// H(Q,P): zero
}

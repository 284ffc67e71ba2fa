// Command certificate finds the noise multiplier of a training, certifies it, and verifies the
// certificate again, without a run directory.
package main

import (
	"context"
	"fmt"
	"log"
	"time"

	"minsep/mechanism"
	"minsep/privacy"
	"minsep/sampling"
)

func main() {
	ctx := context.Background()
	scheme := sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.08, Steps: 64, MinSep: 4, WarmStart: true}}
	strategy := must(mechanism.BSR(64, 4))
	claim := privacy.Claim{Sampler: scheme, Strategy: strategy, Epsilon: 2, Delta: 1e-3, Samples: 50_000}
	certificate := must(privacy.Certify(ctx, claim, nil))
	again := must(certificate.Verify(ctx, 100*time.Millisecond))
	rmse := certificate.NoiseMultiplier * must(strategy.Error(mechanism.Prefix(64))).RMSE
	fmt.Printf("σ = %.3f by %s; verified again: δ is at most %.2g with a probability of %g; prefix sums err by %.2f clip norms\n",
		certificate.NoiseMultiplier, certificate.Method, again.Delta, again.Confidence, rmse)
}

func must[T any](x T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return x
}

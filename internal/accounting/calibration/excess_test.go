package calibration_test

import (
	"math"
	"testing"

	"minsep/internal/accounting"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/tilt"
	"minsep/internal/stattest"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestExcessOfSeveralExamples: δ of an owner of several examples, by the values that a verification
// would draw, is never below the truth, and above it by at most a tenth.
func TestExcessOfSeveralExamples(t *testing.T) {
	epoch, wide := sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: 3, MinSep: 1, EpochSteps: 3}}, sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: 3, MinSep: 2, EpochSteps: 2}}
	for _, c := range []struct {
		spec           sampling.Spec
		one            distribution
		k              int
		sigma, epsilon float64
		direction      montecarlo.Direction
	}{
		{epoch, epochDistribution(3, 1, 3), 3, 2, 2, montecarlo.P},
		{wide, epochDistribution(3, 2, 2), 4, 2, 4, montecarlo.Q},
	} {
		b := boundCase{sigma: c.sigma, epsilon: c.epsilon, distributions: []distribution{c.one.times(c.k)}, run: accounting.Run{Sampler: c.spec, MaxExamplesPerOwner: c.k,
			Strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 3, Toeplitz: []float64{1}}}}
		both, _ := b.truth(func(m mixture) (float64, float64, float64) { return m.quadrature(c.epsilon) })
		truth := both[0]
		if c.direction == montecarlo.Q {
			truth = both[1]
		}
		samples := 20_000
		if stattest.Long() {
			samples = 400_000
		}
		config := tilt.Config{Spec: b.run.Loss(c.sigma), Epsilon: c.epsilon, Direction: c.direction}
		proposal, err := tilt.NewProposal(t.Context(), config)
		if err != nil {
			t.Fatal(err)
		}
		v, err := tilt.NewVerifier(proposal, stream.PublicKey("excess", nil))
		if err != nil {
			t.Fatal(err)
		}
		sum, err := v.Sum(t.Context(), 0, uint64(samples))
		if err != nil {
			t.Fatal(err)
		}
		mean := sum.Mean(uint64(samples)) * proposal.Bound
		stdErr := math.Sqrt(proposal.Bound * mean / float64(samples))
		t.Logf("%v, direction %s: %.3f ± %.3f times the truth, %.3g", b, c.direction, mean/truth, stdErr/truth, truth)
		if mean+5*stdErr < truth || mean-5*stdErr > 1.1*truth {
			t.Errorf("%v, direction %s: %g ± %g where the truth is %g", b, c.direction, mean, stdErr, truth)
		}
	}
}

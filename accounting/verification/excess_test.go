package verification_test

import (
	"math"
	"testing"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/montecarlo/tilt"
	"minsep/internal/stattest"
	"minsep/mechanism"
	"minsep/sampling"
	"minsep/sampling/stream"
)

// TestExcessOfSeveralExamples: δ of an owner of several examples, by the values that a verification
// would draw, is never below the truth. Drawn ratios raise it by at most a tenth, and the plain
// values that are left where no M is below 1, of the power of one example's ratio, several times:
// docs/accounting.md has the figures.
func TestExcessOfSeveralExamples(t *testing.T) {
	once, err := sampling.NewBalancedMinSep(3, 1, 1)
	if err != nil {
		t.Fatal(err)
	}
	balanced, epoch, wide := sampling.Spec{BalancedMinSep: &once}, sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: 3, MinSep: 1, EpochSteps: 3}}, sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: 3, MinSep: 2, EpochSteps: 2}}
	for _, c := range []struct {
		spec           sampling.Spec
		one            distribution
		k              int
		sigma, epsilon float64
		direction      montecarlo.Direction
		least, most    float64 // of what is drawn over the truth
	}{
		{balanced, balancedDistribution(once), 2, 0.5, 8, montecarlo.P, 2.7, 3},
		{epoch, epochDistribution(3, 1, 3), 3, 1, 4, montecarlo.P, 2.7, 3.1},
		{wide, epochDistribution(3, 2, 2), 3, 1, 8, montecarlo.P, 3.5, 4},
		{epoch, epochDistribution(3, 1, 3), 4, 1, 8, montecarlo.P, 6.6, 7.5},
		{balanced, balancedDistribution(once), 2, 1, 4, montecarlo.P, 1, 1.1},
		{balanced, balancedDistribution(once), 2, 1, 4, montecarlo.Q, 1, 1.1},
		{epoch, epochDistribution(3, 1, 3), 3, 2, 2, montecarlo.P, 1, 1.1},
		{wide, epochDistribution(3, 2, 2), 4, 2, 4, montecarlo.Q, 1, 1.1},
	} {
		b := boundCase{sigma: c.sigma, epsilon: c.epsilon, distributions: []distribution{c.one.times(c.k)}, run: accounting.Run{Sampler: c.spec, MaxExamplesPerOwner: c.k,
			Strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 3, Toeplitz: []float64{1}}}}
		both, _ := b.truth(func(m mixture) (float64, float64, float64) { return m.quadrature(c.epsilon) })
		truth := both[0]
		if c.direction == montecarlo.Q {
			truth = both[1]
		}
		mean, stdErr, plain := b.drawn(t, c.direction, 20_000)
		if stattest.Long() {
			mean, stdErr, plain = b.drawn(t, c.direction, 400_000)
		}
		t.Logf("%v, direction %s: %.3f ± %.3f times the truth, %.3g; plain %t", b, c.direction, mean/truth, stdErr/truth, truth, plain)
		if mean+5*stdErr < c.least*truth || mean-5*stdErr > c.most*truth || plain != (c.least > 1) {
			t.Errorf("%v, direction %s: %g ± %g where the truth is %g; plain %t", b, c.direction, mean, stdErr, truth, plain)
		}
	}
}

// drawn is the mean of values as a verification draws them, its standard error, and whether they
// are plain.
func (c boundCase) drawn(t *testing.T, d montecarlo.Direction, samples int) (mean, stdErr float64, plain bool) {
	t.Helper()
	spec, bound := c.run.Loss(c.sigma), 1.0
	proposal, err := tilt.NewProposal(tilt.Config{Spec: spec, Epsilon: c.epsilon, Direction: d})
	if err == nil && proposal.Bound < 1 {
		v, err := tilt.NewVerifier(proposal, stream.PublicKey("excess", nil))
		if err != nil {
			t.Fatal(err)
		}
		sum, err := v.Sum(t.Context(), 0, uint64(samples), 1)
		if err != nil {
			t.Fatal(err)
		}
		bound = proposal.Bound
		mean = sum.Mean(uint64(samples)) * bound
	} else {
		s, err := montecarlo.NewSampler(spec, d, stream.PublicKey("excess", nil))
		if err != nil {
			t.Fatal(err)
		}
		losses := make([]float64, samples)
		s.Losses(losses, 0)
		for _, l := range losses {
			mean += max(0, -math.Expm1(c.epsilon-l)) / float64(samples)
		}
		plain = true
	}
	return mean, math.Sqrt(bound * mean / float64(samples)), plain
}

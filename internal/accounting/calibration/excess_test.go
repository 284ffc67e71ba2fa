package calibration_test

import (
	"math"
	"math/rand/v2"
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
// would draw, is never below the truth, and above it by at most a tenth, also where no M is below
// 1.
func TestExcessOfSeveralExamples(t *testing.T) {
	epoch, wide := sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: 3, MinSep: 1, EpochSteps: 3}}, sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: 3, MinSep: 2, EpochSteps: 2}}
	for _, c := range []struct {
		spec           sampling.Spec
		one            distribution
		k              int
		sigma, epsilon float64
		direction      montecarlo.Direction
		sampled        bool // M is 1
	}{
		{epoch, epochDistribution(3, 1, 3), 3, 1, 4, montecarlo.P, true},
		{wide, epochDistribution(3, 2, 2), 3, 1, 8, montecarlo.P, true},
		{epoch, epochDistribution(3, 1, 3), 4, 1, 8, montecarlo.P, true},
		{epoch, epochDistribution(3, 1, 3), 3, 2, 2, montecarlo.P, false},
		{wide, epochDistribution(3, 2, 2), 4, 2, 4, montecarlo.Q, false},
	} {
		b := boundCase{sigma: c.sigma, epsilon: c.epsilon, distributions: []distribution{c.one.times(c.k)}, run: accounting.Run{Sampler: c.spec, MaxExamplesPerOwner: c.k,
			Strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 3, Toeplitz: []float64{1}}}}
		both, _ := b.truth(func(m mixture) (float64, float64, float64) { return m.quadrature(c.epsilon) })
		truth := both[0]
		if c.direction == montecarlo.Q {
			truth = both[1]
		}
		mean, stdErr, sampled := b.drawn(t, c.direction, 20_000)
		if stattest.Long() {
			mean, stdErr, sampled = b.drawn(t, c.direction, 400_000)
		}
		t.Logf("%v, direction %s: %.3f ± %.3f times the truth, %.3g; M is 1: %t", b, c.direction, mean/truth, stdErr/truth, truth, sampled)
		if mean+5*stdErr < truth || mean-5*stdErr > 1.1*truth || sampled != c.sampled {
			t.Errorf("%v, direction %s: %g ± %g where the truth is %g; M is 1: %t", b, c.direction, mean, stdErr, truth, sampled)
		}
	}
}

// TestSampledValuesOfRandomRuns: where ratios are drawn at M = 1, the means of both directions are
// not below the truth of random small runs, and not far above.
func TestSampledValuesOfRandomRuns(t *testing.T) {
	const samples = 4000
	rng := rand.New(rand.NewPCG(2026, 11))
	held, most := 0, 0.0
	for held < 60 {
		c := randomCase(rng, 1+held%2, 4)
		for i, d := range montecarlo.Directions {
			config := tilt.Config{Spec: c.run.Loss(c.sigma), Epsilon: c.epsilon, Direction: d}
			if other, err := tilt.NewProposal(t.Context(), config); err == nil && other.Bound < 1 {
				continue
			}
			proposal, err := tilt.NewSampled(config)
			if err != nil {
				continue
			}
			truth, fault := c.truth(func(m mixture) (float64, float64, float64) { return m.quadrature(c.epsilon) })
			v, err := tilt.NewVerifier(proposal, stream.PublicKey("excess", nil))
			if err != nil {
				t.Fatal(err)
			}
			sum, err := v.Sum(t.Context(), 0, samples)
			if err != nil {
				t.Fatal(err)
			}
			mean := sum.Mean(samples)
			allowed := fault + 5*math.Sqrt(truth[i]/samples) + 10./samples
			if mean < truth[i]-allowed || mean > 1.5*truth[i]+allowed {
				t.Errorf("%v, direction %s: %g where the truth is %g", c, d, mean, truth[i])
			}
			held++
			if truth[i] > 0.02 {
				most = max(most, mean/truth[i])
			}
		}
	}
	t.Logf("at most %.2f times a truth above .02", most)
}

// drawn is the mean of values as a verification draws them, its standard error, and whether M is 1.
func (c boundCase) drawn(t *testing.T, d montecarlo.Direction, samples int) (mean, stdErr float64, sampled bool) {
	t.Helper()
	config := tilt.Config{Spec: c.run.Loss(c.sigma), Epsilon: c.epsilon, Direction: d}
	proposal, err := tilt.NewProposal(t.Context(), config)
	if err != nil || proposal.Bound >= 1 {
		proposal, err = tilt.NewSampled(config)
		sampled = true
	}
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
	mean = sum.Mean(uint64(samples)) * proposal.Bound
	return mean, math.Sqrt(proposal.Bound * mean / float64(samples)), sampled
}

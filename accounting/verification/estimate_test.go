package verification

import (
	"math"
	"testing"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestFarEstimatesAreShort: an estimate that is far from δ ends with the fewest samples that say on which side it is, and one near δ
// does not.
func TestFarEstimatesAreShort(t *testing.T) {
	const delta = 1e-7
	run := accounting.Run{MaxExamplesPerOwner: 1,
		Sampler:  sampling.Spec{BMinSep: &sampling.BMinSep{Prob: .005, Steps: 96, MinSep: 32, WarmStart: true}},
		Strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 96, Toeplitz: []float64{1, .5, .3, .2}}}
	kinds := map[bool]int{}
	for _, sigma := range []float64{.88, 1} {
		e := &estimator{run: run, epsilon: 2, delta: delta, workers: 1, limit: 2e6}
		s, err := newSide(run, sigma, e.epsilon, montecarlo.P)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.estimate(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if got.Samples == 0 {
			continue
		}
		fewest := uint64(max(leastSamples, math.Ceil(10*got.Effort)))
		far := got.Mean > 20*delta || got.Mean < delta/20
		near := got.Mean > delta/2 && got.Mean < 2*delta && usual*got.Bound > 2*got.Mean*float64(fewest)
		if far && got.Samples != fewest || near && got.Samples <= fewest {
			t.Errorf("σ = %v: %d samples for a mean of %g, M = %g", sigma, got.Samples, got.Mean, got.Bound)
		}
		if far {
			kinds[true]++
		}
		if near {
			kinds[false]++
		}
		t.Logf("σ = %v: mean %.2g δ, M/δ = %.3g, %d samples, at least %d", sigma, got.Mean/delta, got.Bound/delta, got.Samples, fewest)
	}
	if kinds[true] == 0 || kinds[false] == 0 {
		t.Errorf("of far and near estimates there were %v: it shows nothing", kinds)
	}
}

package verification

import (
	"math"
	"testing"
	"time"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestFarEstimatesAreShort: an estimate that is far from δ ends with the fewest samples that say on
// which side it is, and one near δ does not.
func TestFarEstimatesAreShort(t *testing.T) {
	const delta = 1e-7
	run := accounting.Run{MaxExamplesPerOwner: 1,
		Sampler:  sampling.Spec{BMinSep: &sampling.BMinSep{Prob: .005, Steps: 96, MinSep: 32, WarmStart: true}},
		Strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 96, Toeplitz: []float64{1, .5, .3, .2}}}
	kinds := map[bool]int{}
	for _, sigma := range []float64{.88, 1} {
		e := &estimator{run: run, epsilon: 2, delta: delta, workers: 1, limit: 2e6}
		s, err := newHockeyStick(run, sigma, e.epsilon, montecarlo.P)
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

// TestLineThroughTheTwoNearest: with one estimate near δ the line has the slope of that one and the
// next, not the flattest, and what is far away does not turn it. An estimate of which no value was
// seen stands for one value.
func TestLineThroughTheTwoNearest(t *testing.T) {
	const delta, slope = 1e-6, -30.0
	curve := func(sigma float64) float64 { return delta * math.Pow(sigma, slope) }
	at := func(sigma, mean float64, samples uint64) NoiseEstimate {
		return NoiseEstimate{NoiseMultiplier: sigma, Estimates: [2]Estimate{
			{Direction: montecarlo.P, Samples: samples, Mean: mean, Bound: 20 * delta},
			{Direction: montecarlo.Q, Mean: 1e-12 * delta}}}
	}
	seen := func(sigma float64) NoiseEstimate { return at(sigma, curve(sigma), 4000) }
	for _, c := range []struct {
		name      string
		estimates []NoiseEstimate
		within    float64 // of ln σ = 0
	}{
		{"one near, one below", []NoiseEstimate{seen(.94), seen(1.02)}, 1e-9},
		{"one near, one above", []NoiseEstimate{seen(.98), seen(1.08)}, 1e-9},
		{"one near, two far", []NoiseEstimate{seen(.7), seen(.98), seen(1.08)}, 1e-9},
		{"none near", []NoiseEstimate{seen(.9), seen(1.1)}, 1e-9},
		{"none seen far away", []NoiseEstimate{seen(.98), at(1.3, 1e-15*delta, 400)}, .03},
		{"two near", []NoiseEstimate{at(.7, delta*1e9, 4000), seen(.98), seen(1.03)}, 1e-9},
	} {
		line := fitEstimates(c.estimates, delta)
		if got := math.Log(line.at(delta)); math.Abs(got) > c.within {
			t.Errorf("%s: δ at a noise multiplier of e^%.3g, slope %.3g: want 1 and %g", c.name, got, line.slope, slope)
		}
		m := newModel(c.estimates, delta)
		if got := math.Log(m.fits[0].value(1) / delta); math.Abs(got) > -slope*c.within+1e-9 {
			t.Errorf("%s: the model says e^%.3g δ", c.name, got)
		}
	}
	unseen := fitEstimates([]NoiseEstimate{seen(.98), at(1.3, 1e-15*delta, 400)}, delta)
	if want := math.Log(20*delta/400/curve(.98)) / math.Log(1.3/.98); math.Abs(unseen.slope/want-1) > 1e-9 {
		t.Errorf("none seen far away: slope %g, want %g", unseen.slope, want)
	}
	if line := fitEstimates([]NoiseEstimate{seen(.98)}, delta); line.slope != flattest {
		t.Errorf("one estimate has the slope %g", line.slope)
	}
}

// TestProofsEndWithTheBudget: the search for a noise multiplier that needs no samples ends with a
// budget in time, or with the part of it that estimates may take once there is one.
func TestProofsEndWithTheBudget(t *testing.T) {
	p := Problem{Run: smallRun(), Epsilon: 2, Delta: 1e-3, CPUTime: time.Hour, CodeVersion: "test"}
	e := p.newEstimator()
	if _, provable, err := p.start(e); err != nil || provable.NoiseMultiplier == 0 {
		t.Fatalf("an hour proves %v, %v", provable.NoiseMultiplier, err)
	}
	e.share.seconds = 1e-9
	if first, provable, err := p.start(e); err != nil || provable.NoiseMultiplier != 0 || first <= 0 {
		t.Errorf("no time: %v is proven, %v first, %v", provable.NoiseMultiplier, first, err)
	}
	for _, c := range []struct {
		used           float64 // of the budget
		open, improved bool    // goes on without, and with, a noise multiplier
	}{{.1, true, true}, {.5, true, false}, {1.1, false, false}} {
		e.share.seconds = 3600
		e.share.processor = processorTime() - time.Duration(c.used*3600*float64(time.Second))
		e.share.begun = time.Now().Add(-time.Duration(c.used * 3600 * float64(time.Second) / float64(e.workers)))
		if open, improved := e.timeForProofs(false), e.timeForProofs(true); open != c.open || improved != c.improved {
			t.Errorf("%v of the budget is used: goes on %v without, %v with one", c.used, open, improved)
		}
	}
	e.share.seconds = 0
	if !e.timeForProofs(true) {
		t.Error("a budget in samples ends the search")
	}
}

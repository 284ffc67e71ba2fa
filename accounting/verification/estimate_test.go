package verification

import (
	"math"
	"testing"
	"time"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/accounting/search"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestFarEstimatesAreShort: an estimate that is far from δ ends with about the fewest samples that
// say on which side it is, and one near δ does not.
func TestFarEstimatesAreShort(t *testing.T) {
	const delta = 1e-7
	run := accounting.Run{MaxExamplesPerOwner: 1,
		Sampler:  sampling.Spec{BMinSep: &sampling.BMinSep{Prob: .005, Steps: 96, MinSep: 32, WarmStart: true}},
		Strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 96, Toeplitz: []float64{1, .5, .3, .2}}}
	kinds := map[bool]int{}
	for _, sigma := range []float64{.88, 1} {
		p := Problem{Run: run, Epsilon: 2, Delta: delta, Workers: 1, Accept: 0.5}
		e := p.newEstimator()
		e.limit = 2e6
		s, err := newHockeyStick(t.Context(), run, sigma, e.epsilon, montecarlo.P)
		if err != nil {
			t.Fatal(err)
		}
		got, err := e.estimate(t.Context(), s, 10, false)
		if err != nil {
			t.Fatal(err)
		}
		if got.Samples == 0 {
			continue
		}
		fewest := uint64(max(leastSamples, math.Ceil(10*got.Effort)))
		far := got.Mean > 20*delta || got.Mean < delta/20
		near := got.Mean > delta/2 && got.Mean < 2*delta && 100*got.Bound > got.Mean*float64(fewest)
		if far && got.Samples >= 2*fewest || near && got.Samples <= fewest {
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

// TestModel: a curve goes through estimates near δ, what is far away does not bend it, and the
// fewer values were seen the less is known.
func TestModel(t *testing.T) {
	const delta, pace = 1e-6, 1.2
	scale := scaleOf(t, 2, delta)
	curve := func(sigma float64) float64 { return delta * math.Exp(scale.Ratio(pace*math.Log(sigma))) }
	at := func(sigma, mean float64, samples uint64) NoiseEstimate {
		return NoiseEstimate{NoiseMultiplier: sigma, Estimates: [2]Estimate{
			{Direction: montecarlo.P, Samples: samples, Mean: mean, Bound: 20 * delta},
			{Direction: montecarlo.Q, Mean: 1e-12 * delta, Bound: 1e-12 * delta}}}
	}
	seen := func(sigma float64) NoiseEstimate { return at(sigma, curve(sigma), 4000) }
	for _, c := range []struct {
		name      string
		estimates []NoiseEstimate
		within    float64 // of ln σ = 0
		spread    float64 // at most, of ln δ there, in one standard error
	}{
		{"one near, one below", []NoiseEstimate{seen(.94), seen(1.02)}, .003, .15},
		{"one near, one above", []NoiseEstimate{seen(.98), seen(1.08)}, .003, .2},
		{"one near, two far", []NoiseEstimate{seen(.7), seen(.98), seen(1.08)}, .003, .2},
		{"none near", []NoiseEstimate{seen(.9), seen(1.1)}, .01, .6},
		{"one near", []NoiseEstimate{seen(.98)}, .005, .4},
		{"none seen far away", []NoiseEstimate{seen(.98), at(1.3, 1e-15*delta, 400)}, .005, .4},
		{"two near, one wrong and far away", []NoiseEstimate{at(.7, delta*1e9, 4000), seen(.98), seen(1.03)}, .003, .15},
	} {
		m := newModel(scale, c.estimates, NoiseEstimate{})
		if got := math.Log(m.at(delta)); math.Abs(got) > c.within {
			t.Errorf("%s: δ at a noise multiplier of e^%.3g, want 1", c.name, got)
		}
		q := m.curves[0]
		low, high := math.Log(q.Quantile(.159, 1)/delta), math.Log(q.Quantile(.841, 1)/delta)
		if got := (high - low) / 2; got > c.spread || low > c.spread || high < -c.spread {
			t.Errorf("%s: ln δ is from %.3g to %.3g, want 0 ± %g", c.name, low, high, c.spread)
		}
	}
	few := newModel(scale, []NoiseEstimate{at(.98, curve(.98), 40), at(1.02, curve(1.02), 40)}, NoiseEstimate{}).curves[0]
	if low, high := few.Quantile(.159, 1), few.Quantile(.841, 1); high < 1.9*low {
		t.Errorf("about four values seen: δ from %.3g to %.3g", low, high)
	}
}

// scaleOf is the scale of a claim.
func scaleOf(t *testing.T, epsilon, delta float64) *search.Scale {
	t.Helper()
	s, err := search.NewScale(epsilon, delta)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestModelFarAboveTheTarget: where all that was looked at has an M far below δ, since the search
// for proofs ended early, δ is expected at less noise, nothing is known there, and the search goes
// on.
func TestModelFarAboveTheTarget(t *testing.T) {
	const delta = 1.3e-8
	l := NoiseEstimate{NoiseMultiplier: .529}
	l.Estimates[0] = Estimate{Direction: montecarlo.P, Samples: 4000, Mean: 6e-13, Bound: .066 * delta}
	l.Estimates[1] = Estimate{Direction: montecarlo.Q}
	proven := NoiseEstimate{NoiseMultiplier: .5536}
	proven.Estimates[0].Bound = .05 * delta
	m := newModel(scaleOf(t, 2, delta), []NoiseEstimate{l}, proven)
	at := m.at(.75 * delta)
	if at < .3 || at > .5 || math.Abs(m.expected(at)/(.75*delta)-1) > .01 || m.spread(at) < enough {
		t.Errorf("%.3g δ is expected at %v, with a standard error of ln δ of %.2g", m.expected(at)/delta, at, m.spread(at))
	}
	for _, errors := range []float64{0, mainErrors, safeErrors} {
		if g := m.goals(at, errors)[0]; g.Mean > g.Bound || g.Bound > 1 || m.goals(.54, errors)[0].Bound > .066*delta {
			t.Errorf("%v standard errors: %+v", errors, g)
		}
	}
}

// TestProofsEndWithTheBudget: the search for a noise multiplier that needs no samples ends with a
// budget in time, or with the part of it that estimates may take once there is one. The closed form
// takes no time.
func TestProofsEndWithTheBudget(t *testing.T) {
	p := Problem{Run: smallRun(), Epsilon: 2, Delta: 1e-3, CPUTime: time.Hour, CodeVersion: "test"}
	e := p.newEstimator()
	_, hour, err := p.start(t.Context(), e)
	if err != nil || hour.NoiseMultiplier == 0 {
		t.Fatalf("an hour proves %v, %v", hour.NoiseMultiplier, err)
	}
	e.share.seconds = 1e-9
	if first, provable, err := p.start(t.Context(), e); err != nil || provable.NoiseMultiplier < 2*hour.NoiseMultiplier || len(provable.Tried) > 0 || first <= 0 {
		t.Errorf("no time: %v is proven, %v first, %v", provable.NoiseMultiplier, first, err)
	}
	for _, c := range []struct {
		used           float64 // of the budget
		open, improved bool    // goes on without, and with, a noise multiplier
	}{{.1, true, true}, {.5, true, false}, {1.1, false, false}} {
		e.share.seconds = 3600
		e.share.processor = processorTime() - time.Duration(c.used*3600*float64(time.Second))
		e.share.begun = time.Now().Add(-time.Duration(c.used * 3600 * float64(time.Second) / float64(e.workers)))
		if open, improved := e.timeForProofs(0, math.Inf(1)), e.timeForProofs(1, 1.2); open != c.open || improved != c.improved {
			t.Errorf("%v of the budget is used: goes on %v without, %v with one", c.used, open, improved)
		}
	}
	e.share.seconds = 0
	if !e.timeForProofs(1, 1.2) || e.timeForProofs(1, 1.02) {
		t.Error("a budget in samples ends the search, or the search goes on although the least is known to 2 %")
	}
}

// TestGoalBelowProofs: looks that needed no samples are exact, and say nothing of where δ is. A
// search does not end with them, and goes on far below.
func TestGoalBelowProofs(t *testing.T) {
	at := func(sigma, delta float64, samples uint64) NoiseEstimate {
		out := NoiseEstimate{NoiseMultiplier: sigma}
		for i, d := range montecarlo.Directions {
			out.Estimates[i] = Estimate{Direction: d, Mean: delta, Bound: delta, Samples: samples}
			if samples > 0 {
				out.Estimates[i].Bound = 10 * delta
				out.Estimates[i].StdErr = delta / 100
			}
		}
		return out
	}
	const target = 7.5e-6
	s := &looks{estimator: &estimator{scale: scaleOf(t, 2, 1e-5), delta: 1e-5, limit: 1e9}, target: target}
	s.share.whole, s.share.samples = 1e9, 1e9
	s.estimates = []NoiseEstimate{at(4.566, 3.2e-10, 0), at(5.046, 3.9e-12, 0)}
	goal, done := s.Goal()
	if low := math.Log(4.566); done || goal > low-search.Far || goal < low-search.Farthest-1e-9 {
		t.Errorf("goal %v, done %v, after proofs at %v and more", goal, done, low)
	}
	s.estimates = []NoiseEstimate{at(2, target*1.01, 100000), at(2.2, 1e-6, 100000)}
	if _, done := s.Goal(); !done {
		t.Error("not done with samples at the target")
	}
}

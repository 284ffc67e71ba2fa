package search

import (
	"errors"
	"math"
	"slices"
	"testing"

	"minsep/accounting"
	"minsep/accounting/montecarlo"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestNothingSeen: looks of which no sample says anything bound the divergence, and do not take
// part in the fit beside one that does.
func TestNothingSeen(t *testing.T) {
	s, err := Claim{Epsilon: 2, Delta: 1e-5}.searcher(montecarlo.P, UnknownPace)
	if err != nil {
		t.Fatal(err)
	}
	of := func(looks ...look) Solution {
		s.looks = looks
		return s.fit()
	}
	seen := s.looked(-.3, .01, look{samples: 512, seen: 9, squares: 3, largest: .6})
	alone := of(seen)
	looks := []look{seen}
	for _, x := range []float64{.2, .1, 0, -.1} {
		looks = append(looks, s.looked(x, -.1, look{samples: 256}))
	}
	if got := of(looks...); got != alone {
		t.Errorf("beside looks that saw nothing %+v, alone %+v", got, alone)
	}
	if none := of(looks[1:3]...); math.Abs(none.X) > none.ByPace/5 {
		t.Errorf("of the bound at ln σ = .1 with a gap of -.1: %+v", none)
	}
}

// looked is a look at ln σ = x that has a gap by its values.
func (s *searcher) looked(x, gap float64, l look) look {
	l.x = x
	s.scale.set(&l, s.scale.Ratio(-gap), max(1, l.count()))
	return l
}

// TestBehind: what is clearly behind may be estimated with fewer samples, and what is then said of
// it holds against its full estimate: the noise multiplier up to its error, and that it is behind.
func TestBehind(t *testing.T) {
	toeplitz, _, err := mechanism.Problem{Workload: mechanism.Prefix(24)}.OptimalToeplitz(3)
	if err != nil {
		t.Fatal(err)
	}
	run := accounting.Run{Sampler: sampling.Spec{BMinSep: &sampling.BMinSep{Prob: .05, Steps: 24, MinSep: 3, WarmStart: true}}, Strategy: toeplitz, MaxExamplesPerOwner: 2}
	of := Claim{Run: run, Epsilon: 2, Delta: 1e-5}
	full, err := of.estimate(t.Context(), Guess{1, UnknownPace, math.Inf(1)}, .002)
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range []float64{.5, .7, .85, .93, 1.01, 1.1} {
		behind := part * full.Multiplier
		got, err := of.estimate(t.Context(), Guess{behind, UnknownPace.Similar(), behind}, Tolerance)
		if err != nil {
			t.Fatal(err)
		}
		if off := math.Abs(got.Multiplier - full.Multiplier); off > 4*math.Hypot(got.StdErr, full.StdErr) || got.StdErr > rough*got.Multiplier {
			t.Errorf("from %g on behind: %g ± %g, in full %g ± %g", behind, got.Multiplier, got.StdErr, full.Multiplier, full.StdErr)
		}
		rough := got.StdErr > 1.01*Tolerance*got.Multiplier
		if rough && (got.Multiplier-Apart*got.StdErr <= behind || full.Multiplier <= behind) {
			t.Errorf("%g ± %g is taken as behind %g, in full %g", got.Multiplier, got.StdErr, behind, full.Multiplier)
		}
		if part > 1 && rough {
			t.Errorf("behind from %g of the noise multiplier on: %g ± %g", part, got.Multiplier, got.StdErr)
		}
	}
}

// TestTooFewHits: where the samples end before enough is seen, a candidate is refused, and not
// given a bound in place of an estimate, although it would be behind by that.
func TestTooFewHits(t *testing.T) {
	strategy, err := mechanism.BSR(200, 16)
	if err != nil {
		t.Fatal(err)
	}
	run := accounting.Run{Sampler: sampling.Spec{BMinSep: &sampling.BMinSep{Prob: .02, Steps: 200, MinSep: 16, WarmStart: true}}, Strategy: strategy, MaxExamplesPerOwner: 5}
	of := Claim{Run: run, Epsilon: 8, Delta: 1e-9, Share: 1e-9} // of a few samples
	few := 0
	for _, start := range []float64{3, 4, 5, 6} {
		n, err := of.estimate(t.Context(), Guess{start, UnknownPace, .1}, Tolerance)
		if errors.Is(err, ErrTooDear) || errors.Is(err, ErrNoEstimate) {
			few++
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		if !slices.ContainsFunc(n.found.looks, func(l look) bool { return l.tells() }) {
			t.Errorf("from %g: %g ± %g, of %+v", start, n.Multiplier, n.StdErr, n.found.looks)
		}
	}
	if few == 0 {
		t.Error("nothing was refused: the test shows nothing")
	}
}

// TestRetreat: where the samples do not show enough near δ, those at a smaller noise multiplier do,
// and what they say is the noise multiplier, up to its error.
func TestRetreat(t *testing.T) {
	strategy, err := mechanism.BSR(60, 6)
	if err != nil {
		t.Fatal(err)
	}
	run := accounting.Run{Sampler: sampling.Spec{EpochMinSep: &sampling.EpochMinSep{EpochSteps: 15, Steps: 60, MinSep: 6}}, Strategy: strategy, MaxExamplesPerOwner: 5}
	of := Claim{Run: run, Epsilon: 8, Delta: 1e-5}
	full, err := of.estimate(t.Context(), Guess{4, UnknownPace, math.Inf(1)}, .03)
	if err != nil {
		t.Fatal(err)
	}
	of.Share, of.Seed = 0.0006, 1
	retreats := 0
	for _, start := range []float64{.95, 1, 1.05} {
		got, err := of.estimate(t.Context(), Guess{start * full.Multiplier, UnknownPace, .5 * full.Multiplier}, Tolerance)
		if err != nil {
			t.Errorf("from %g: %v", start, err)
			continue
		}
		retreats += got.found.retreats
		if off := math.Abs(got.Multiplier - full.Multiplier); off > 3*math.Hypot(got.StdErr, full.StdErr) || got.StdErr > rough*got.Multiplier {
			t.Errorf("from %g: %g ± %g, with more samples %g ± %g", start, got.Multiplier, got.StdErr, full.Multiplier, full.StdErr)
		}
	}
	if retreats == 0 {
		t.Error("every first look shows enough: the test shows nothing")
	}
}

// TestIsFar: a few values say that a noise multiplier is far too small, but not where it is enough
// to know that a divergence is below δ: there it must not end before it is known to be.
func TestIsFar(t *testing.T) {
	s, err := Claim{Run: accounting.Run{MaxExamplesPerOwner: 2}, Epsilon: 2, Delta: 1e-5}.searcher(montecarlo.P, UnknownPace)
	if err != nil {
		t.Fatal(err)
	}
	l := s.looked(0, .4, look{samples: Few, seen: 1, squares: .1, largest: .1})
	s.looks = []look{l}
	one, little, near := l, l, l
	one.squares, one.largest, near.gap = 1, 1, .09
	little.seen, little.squares, little.largest = .09, .0008, .009
	if !s.isFar(&l) || s.isFar(&one) || s.isFar(&little) || s.isFar(&near) {
		t.Error("far is not what some values at a large gap say")
	}
	if s.below = true; s.isFar(&l) {
		t.Error("a look for a divergence below δ ends above it with a few values")
	}
}

// TestCount: values count by how even they are, and what is too little tells nothing.
func TestCount(t *testing.T) {
	for _, c := range []struct {
		values []float64
		count  float64
		tells  bool
	}{
		{nil, 0, false},
		{[]float64{1}, .5, false},
		{[]float64{.2, .2, .2, .2, .2, .2, .2, .2}, 64. / 9, false},
		{slices.Repeat([]float64{.2}, 12), 144. / 13, true},
		{slices.Repeat([]float64{.008}, 12), 144. / 13, false}, // a sum below a tenth
		{[]float64{1, .01, .01, .01, .01, .01, .01, .01}, 1.07 * 1.07 / 2.0007, false},
	} {
		var l look
		for _, y := range c.values {
			l.seen, l.squares, l.largest = l.seen+y, l.squares+y*y, max(l.largest, y)
		}
		if got := l.count(); math.Abs(got-c.count) > 1e-12 || l.tells() != c.tells {
			t.Errorf("%v count as %g, want %g; tells: %v", c.values, got, c.count, l.tells())
		}
	}
}

// TestFewValues: over seeds, rough estimates of what is behind, from a few values a fifth below,
// lie around what is proven as their standard errors say. The mean square of 40 standardised
// errors, whose variance is taken for twice that of a normal one's, is above this limit once in 10⁴
// times; errors of too few values would be far above.
func TestFewValues(t *testing.T) {
	run := accounting.Run{Sampler: sampling.Spec{Poisson: &sampling.Poisson{Prob: .02, Steps: 32}}, Strategy: mechanism.Identity(32), MaxExamplesPerOwner: 2}
	of := Claim{Run: run, Epsilon: 2, Delta: 1e-6}
	want, err := of.Proven(1, 0, 1e-5)
	if err != nil {
		t.Fatal(err)
	}
	squares, rough := 0.0, 0
	const seeds = 40
	for of.Seed = range seeds {
		n, err := of.estimate(t.Context(), Guess{math.Exp(-.2) * want.Multiplier, Pace{1, .1}, .5 * want.Multiplier}, Tolerance)
		if err != nil {
			t.Fatal(err)
		}
		off := (n.Multiplier - want.Multiplier) / n.StdErr
		squares += off * off / seeds
		if n.StdErr > 1.01*Tolerance*n.Multiplier {
			rough++
		}
	}
	if squares > 2.5 || rough < seeds/2 {
		t.Errorf("mean square of the standardised errors: %.2f; %d of them rough", squares, rough)
	}
}

// TestHopeless: samples that would tell nothing by what other looks say are not drawn, and those
// that may tell something are.
func TestHopeless(t *testing.T) {
	of := Claim{Run: accounting.Run{MaxExamplesPerOwner: 2}, Epsilon: 8, Delta: 1e-5}
	s, err := of.searcher(montecarlo.P, Pace{1, .05})
	if err != nil {
		t.Fatal(err)
	}
	next := look{logBound: math.Log(1e5)}
	if s.isHopeless(&next, 1000) {
		t.Error("without another look")
	}
	// By this one the divergence is near δ at ln σ = 0, and e^4 times as large 0.2 below.
	s.looks = []look{s.looked(-.2, .2, look{samples: 256, seen: 2, squares: .02, largest: .02})}
	below := next
	below.x = -.2
	if !s.isHopeless(&next, 1000) || s.isHopeless(&below, 1000) || s.isHopeless(&next, 1e6) {
		t.Error("1,000 samples of M/δ = 1e5 are hopeless at a divergence of δ, not far above it, nor are 1e6")
	}
	if s.below = true; s.isHopeless(&next, 1000) {
		t.Error("where it is to be shown that a divergence is below δ, none are")
	}
}

// TestWideStrategiesDrawLess: an estimate has as many samples as take a time, which rises with the
// bands.
func TestWideStrategiesDrawLess(t *testing.T) {
	at := func(bands int) (samples, work float64) {
		column := make([]float64, bands)
		for i := range column {
			column[i] = 1 / float64(i+1)
		}
		s := &searcher{Claim: Claim{Run: accounting.Run{Sampler: sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 2000, MinSep: bands}},
			Strategy: &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 2000, Toeplitz: column}, MaxExamplesPerOwner: 1}}}
		_, dear := s.firstLevel(Tolerance)
		return s.mostSamples(&look{}), dear
	}
	narrow, dear := at(wideBands)
	if samples, _ := at(2); samples != narrow {
		t.Errorf("%g samples with 2 bands, %g with %d", samples, narrow, wideBands)
	}
	if samples, first := at(8 * wideBands); samples != narrow/8 || first != dear/8 {
		t.Errorf("%g samples and %g before finer tables with eight times the bands, %g and %g before", samples, first, narrow, dear)
	}
}

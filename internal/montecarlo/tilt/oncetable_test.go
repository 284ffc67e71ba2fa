package tilt

import (
	"math"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/law"
	"minsep/internal/stattest"
	"minsep/mechanism"
)

// mustOnceTable is the table of an order, and of the orders of the closed form where that refuses
// them.
func mustOnceTable(t *testing.T, s montecarlo.Spec, theta int) *source {
	t.Helper()
	once, ok := singleOf(s)
	if !ok {
		t.Fatalf("%+v is not at most once", s)
	}
	return tableOf(t, law.NewOnce(s.Steps, s.Strategy.Bands(), once), s.Strategy, s.NoiseMultiplier, theta)
}

// onceTableCases are onceCases, and those of order 3 in order 4 too.
func onceTableCases() (cases []tableCase) {
	for _, c := range onceCases() {
		if cases = append(cases, c); c.theta == 3 {
			c.theta = 4
			cases = append(cases, c)
		}
	}
	return cases
}

func TestOnceTableIsTheSumOverAllTuples(t *testing.T) {
	for _, c := range onceTableCases() {
		for _, warm := range []bool{false, true} {
			want := 0.0
			eachTuple(c.c, patterns(c.c.Steps, c.sep, c.p, warm), c.sigma, c.theta, func(_ []int, w float64) { want += w })
			if got := math.Exp(mustOnceTable(t, c.spec(warm), c.theta).lnN); !(math.Abs(got/want-1) <= 1e-12) {
				t.Errorf("%v warm=%v: N = %v, want %v (relative %g)", c, warm, got, want, got/want-1)
			}
		}
	}
}

func TestTuplesOfTheOnceTableFollowTheirDistribution(t *testing.T) {
	for k, c := range onceTableCases() {
		if c.theta == 1 || c.c.Steps == 1 || k%3 > 0 && !stattest.Long() {
			continue
		}
		for _, warm := range []bool{false, true} {
			if c.p == 1 && !warm {
				continue // one tuple only: the normaliser tests it
			}
			if err := testDistribution(t, c, warm, exactWalk(mustOnceTable(t, c.spec(warm), c.theta)), 15000); err != nil {
				t.Errorf("%v warm=%v: %v", c, warm, err)
			}
		}
	}
	c := tableCase{toeplitz(5, 1, .6, .4), 6, .3, 1.5, 4} // with less noise, all four take part at one step
	for _, spoil := range []func(s *montecarlo.Spec){
		func(s *montecarlo.Spec) { s.Prob *= .65 },
		func(s *montecarlo.Spec) { s.NoiseMultiplier *= 1.2 },
		func(s *montecarlo.Spec) { s.WarmStart = false },
	} {
		s := c.spec(true)
		spoil(&s)
		if testDistribution(t, c, true, exactWalk(mustOnceTable(t, s, 4)), 15000) == nil {
			t.Errorf("the test accepts the tuples of p = %v, σ = %v, warm = %v", s.Prob, s.NoiseMultiplier, s.WarmStart)
		}
	}
}

// TestOnceTableIsTheTable: as many labels as bands say the same as as many as min-sep, for long
// runs too.
func TestOnceTableIsTheTable(t *testing.T) {
	long := []float64{1, .6, .45, .3, .2, .1, .05}
	for _, c := range []tableCase{
		{toeplitz(50, long...), 50, .02, .5, 2},
		{toeplitz(50, long...), 61, .02, .5, 3},
		{toeplitz(40, long...), 40, 1, .8, 4},
		{varying(30, 9), 30, .05, .7, 4},
		{&mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 25, Toeplitz: long, Normalized: true}, 26, .3, .6, 5},
	} {
		for _, warm := range []bool{false, true} {
			table := tableOf(t, law.NewMinSep(c.sep, c.p, warm), c.c, c.sigma, c.theta)
			if got := mustOnceTable(t, c.spec(warm), c.theta).lnN; !(math.Abs(got-table.lnN) <= 1e-12) {
				t.Errorf("%v warm=%v: ln N = %v, by the table %v", c, warm, got, table.lnN)
			}
		}
	}
}

// TestOnceTableOfEpochs: an epoch that is no shorter than the run is at most once.
func TestOnceTableOfEpochs(t *testing.T) {
	for _, epoch := range []int{24, 25, 40, 1000} {
		s := montecarlo.Spec{Scheme: montecarlo.EpochMinSep, Steps: 24, MinSep: 4, EpochSteps: epoch, NoiseMultiplier: .7, Strategy: toeplitz(24, 1, .5, .375)}
		for _, theta := range []int{2, 3, 4, 5} {
			want := tableOf(t, s.Law(), s.Strategy, .7, theta)
			if got := mustOnceTable(t, s, theta).lnN; !(math.Abs(got-want.lnN) <= 1e-12) {
				t.Errorf("epoch of %d, order %d: ln N = %v, by the table of epochs %v", epoch, theta, got, want.lnN)
			}
		}
	}
}

// TestFewStepsOfAnEpoch: a tenth of an epoch needs few samples, since orders above 3 take little
// time there.
func TestFewStepsOfAnEpoch(t *testing.T) {
	s := montecarlo.Spec{Scheme: montecarlo.BMinSep, Steps: 100, MinSep: 100, Prob: .001 / (1 - .099), WarmStart: true, NoiseMultiplier: .95, Strategy: toeplitz(100, squareRoot(16)...)}
	p, err := NewProposal(t.Context(), Config{s, 1, montecarlo.P})
	if err != nil {
		t.Fatal(err)
	}
	if most := 600 * 1e-6; p.Bound > most || p.Members[0].Order < 5 {
		t.Errorf("M = %.3g with %+v, want at most %.3g", p.Bound, p.Members, most)
	}
}

// squareRoot is the first column of the banded square root of prefix sums.
func squareRoot(bands int) []float64 {
	c := []float64{1}
	for k := 1; k < bands; k++ {
		c = append(c, c[k-1]*(float64(k)-.5)/float64(k))
	}
	return c
}

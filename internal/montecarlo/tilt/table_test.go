package tilt

import (
	"fmt"
	"math"
	"testing"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/montecarlo/internal/tuples"
	"minsep/internal/stattest"
	"minsep/mechanism"
	"minsep/sampling"
)

func toeplitz(steps int, c ...float64) *mechanism.Strategy {
	return &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: steps, Toeplitz: c}
}

// varying has columns of different norms and shapes, with the given bands.
func varying(steps, bands int) *mechanism.Strategy {
	s := &mechanism.Strategy{Kind: mechanism.KindBanded, Steps: steps, Columns: make([][]float64, steps)}
	for i := range s.Columns {
		for r := range min(bands, steps-i) {
			s.Columns[i] = append(s.Columns[i], 1/float64(1+r)+0.1*math.Sin(float64(i*(r+1)))*math.Sin(float64(i)))
		}
	}
	return s
}

// tableOf is a table of a law from which tuples can be drawn.
func tableOf(t testing.TB, l sampling.Scheme, c *mechanism.Strategy, sigma float64, theta int) *source {
	t.Helper()
	law, err := sampling.TableOf(l)
	if err != nil {
		t.Fatal(err)
	}
	s, err := newTableSource(t.Context(), law, likelihood.NewColumns(c), 1/(sigma*sigma), theta, tuples.Options{Keep: true, MaxBytes: maxTableBytes})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// exactWalk is a walk without weights.
func exactWalk(s *source) func([]kernel.Hit, *uniforms) []kernel.Hit {
	walk := s.walker()
	return func(hits []kernel.Hit, u *uniforms) []kernel.Hit {
		hits, _ = walk(hits, u)
		return hits
	}
}

type tableCase struct {
	c     *mechanism.Strategy
	sep   int
	p     float64
	sigma float64
	theta int
}

func (c tableCase) String() string {
	return fmt.Sprintf("%s n=%d b=%d p=%v σ=%v θ=%d", c.c.Kind, c.c.Steps, c.sep, c.p, c.sigma, c.theta)
}

var tableCases = []tableCase{
	{toeplitz(7, 1, .6), 2, .3, .8, 2},
	{toeplitz(8, 1, .6, .4), 3, .3, .7, 2},
	{toeplitz(8, 1, .6, .4), 3, .3, .7, 3},
	{toeplitz(7, 1, .6, .4), 4, .2, .9, 4},
	{toeplitz(5, 1, .5), 2, .4, .9, 5},
	{toeplitz(6, 1, .6, .4), 3, .9, .7, 3},
	{toeplitz(7, 1, .6, .4), 3, 1, .7, 3},
	{toeplitz(3, 1), 1, .3, .7, 3},
	{toeplitz(3, 1, .5, .25), 4, .3, .7, 3}, // fewer steps than the separation
	{varying(8, 3), 3, .3, .7, 3},
	{varying(7, 2), 3, .4, .8, 4},
	{&mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 8, Toeplitz: []float64{1, .6, .4}, Normalized: true}, 3, .3, .7, 3},
}

func TestNormaliserIsTheSumOverAllTuples(t *testing.T) {
	for _, c := range tableCases {
		for _, warm := range []bool{false, true} {
			want := 0.0
			eachTuple(c.c, patterns(c.c.Steps, c.sep, c.p, warm), c.sigma, c.theta, func(_ []int, w float64) { want += w })
			if got := math.Exp(tableOf(t, sampling.BMinSep{Prob: c.p, Steps: c.c.Steps, MinSep: c.sep, WarmStart: warm}, c.c, c.sigma, c.theta).lnN); math.Abs(got/want-1) > 1e-12 {
				t.Errorf("%v warm=%v: N = %v, want %v (relative %g)", c, warm, got, want, got/want-1)
			}
		}
	}
}

// tupleKey writes a tuple of patterns as the walk reports it: replicas by step.
func tupleKey(list []pattern, tuple []int) string {
	var count [64]int
	for _, k := range tuple {
		for _, i := range list[k].hits {
			count[i]++
		}
	}
	key := ""
	for i, n := range count {
		if n > 0 {
			key += fmt.Sprintf("%d:%d ", i, n)
		}
	}
	return key
}

func hitsKey(hits []kernel.Hit) string {
	key := ""
	for _, h := range hits {
		key += fmt.Sprintf("%d:%d ", h.Step, h.Times)
	}
	return key
}

// testDistribution draws tuples and tests how often each was drawn against enumeration.
func testDistribution(t *testing.T, c tableCase, warm bool, draw func([]kernel.Hit, *uniforms) []kernel.Hit, draws int) error {
	t.Helper()
	list := patterns(c.c.Steps, c.sep, c.p, warm)
	weights, total := map[string]float64{}, 0.0
	eachTuple(c.c, list, c.sigma, c.theta, func(tuple []int, w float64) {
		weights[tupleKey(list, tuple)] += w
		total += w
	})
	return tuplesFollow(weights, total, c.String(), draw, draws)
}

func TestTuplesFollowTheirDistribution(t *testing.T) {
	for _, c := range tableCases {
		for _, warm := range []bool{false, true} {
			if c.p == 1 && !warm {
				continue // one tuple only: the normaliser tests it
			}
			if err := testDistribution(t, c, warm, exactWalk(tableOf(t, sampling.BMinSep{Prob: c.p, Steps: c.c.Steps, MinSep: c.sep, WarmStart: warm}, c.c, c.sigma, c.theta)), 15000); err != nil {
				t.Errorf("%v warm=%v: %v", c, warm, err)
			}
			if c.p == 1 || !stattest.Long() {
				continue
			}
			twin := tableOf(t, sampling.BMinSep{Prob: .65 * c.p, Steps: c.c.Steps, MinSep: c.sep, WarmStart: warm}, c.c, c.sigma, c.theta)
			if testDistribution(t, c, warm, exactWalk(twin), 15000) == nil {
				t.Errorf("%v warm=%v: the test accepts the tuples of another probability", c, warm)
			}
		}
	}
}

// TestPairsOfLargeMinSeps: order 2 has a table from which tuples can be drawn where few steps are
// as far as min-sep from both ends.
func TestPairsOfLargeMinSeps(t *testing.T) {
	const n, b = 2000, 1100
	s := specOf(sampling.BMinSep{Prob: 1e-4, Steps: n, MinSep: b, WarmStart: true}, toeplitz(n, 1, .6, .4), .7)
	source, err := familyOf(s).source(t.Context(), s, likelihood.NewColumns(s.Strategy), 2, true)
	if err != nil || source.walker == nil {
		t.Errorf("order 2 at n = %d, b = %d: %v", n, b, err)
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

package tilt

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/mechanism"
	"minsep/sampling"
)

// rotationPatterns lists every pattern of rotation by its places, uniform in each period; those
// beyond the run are none.
func rotationPatterns(steps, period int) []pattern {
	list := []pattern{{nil, 1}}
	for first := 0; first < steps; first += period {
		var next []pattern
		for _, x := range list {
			for v := range min(period, steps-first) {
				next = append(next, pattern{append(append([]int(nil), x.hits...), first+v), x.prob / float64(period)})
			}
			if beyond := first + period - steps; beyond > 0 {
				next = append(next, pattern{x.hits, x.prob * float64(beyond) / float64(period)})
			}
		}
		list = next
	}
	return list
}

type rotationCase struct {
	c      *mechanism.Strategy
	period int
	sigma  float64
}

func (c rotationCase) String() string {
	return fmt.Sprintf("%s n=%d w=%d T=%d σ=%v", c.c.Kind, c.c.Steps, c.c.Bands(), c.period, c.sigma)
}

func (c rotationCase) spec() montecarlo.Spec {
	return specOf(sampling.Rotation{Steps: c.c.Steps, EpochSteps: c.period}, c.c, c.sigma)
}

func (c rotationCase) periods() periods { return periods{c.c.Steps, c.period} }

func (c rotationCase) pairs(t *testing.T) *pairs {
	t.Helper()
	p, err := newPairs(c.periods(), c.spec().Factor(), likelihood.NewColumns(c.c), true)
	if err != nil {
		t.Fatalf("%v: %v", c, err)
	}
	return p
}

var normalised = &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: 13, Toeplitz: []float64{1, .6, .4}, Normalized: true}

// rotationCases have bands of a period, one band, runs that are shorter than a period, one step
// longer, and no multiple of it, periods of one step, and columns that differ.
var rotationCases = []rotationCase{
	{toeplitz(7, 1, .6), 3, .8},
	{toeplitz(8, 1, .6, .4), 4, .7},
	{toeplitz(9, 1, .6, .4), 3, .7},
	{toeplitz(12, 1, .6, .4, .3), 4, .8},
	{toeplitz(6, 1), 3, .7},
	{toeplitz(4, 1), 1, .9},
	{toeplitz(5, 1, .6, .4), 9, .7},
	{toeplitz(6, 1, .6, .4), 5, .8},
	{toeplitz(15, 1, .6), 5, .7},
	{varying(9, 3), 3, .8},
	{varying(8, 2), 4, .8},
	{normalised, 5, .7},
}

func randomRotationCases(count int) (cases []rotationCase) {
	rng := rand.New(rand.NewPCG(75, 1))
	for len(cases) < count {
		period := 1 + rng.IntN(5)
		n := 1 + rng.IntN(4*period)
		w := 1 + rng.IntN(min(period, n))
		if math.Pow(float64(period), float64((n+period-1)/period)) > 260 {
			continue
		}
		c := varying(n, w)
		if rng.IntN(2) == 0 {
			c = toeplitz(n, []float64{1, .7, .5, .4, .3}[:w]...)
			c.Normalized = rng.IntN(2) == 0
		}
		cases = append(cases, rotationCase{c, period, .5 + rng.Float64()})
	}
	return cases
}

func TestRotationNormaliserIsTheSumOverAllPairs(t *testing.T) {
	for _, c := range append(randomRotationCases(300), rotationCases...) {
		want := 0.0
		list := rotationPatterns(c.c.Steps, c.period)
		total := 0.0
		for _, x := range list {
			total += x.prob
		}
		if math.Abs(total-1) > 1e-12 {
			t.Fatalf("%v: patterns of probability %v", c, total)
		}
		eachTuple(c.c, list, c.sigma, 2, func(_ []int, w float64) { want += w })
		if got := math.Exp(c.pairs(t).logN); math.Abs(got/want-1) > 1e-12 {
			t.Errorf("%v: N = %v, want %v (relative %g)", c, got, want, got/want-1)
		}
		s, err := (rotation{c.period}).source(t.Context(), c.spec(), likelihood.NewColumns(c.c), 2, math.Inf(1))
		if err != nil || s.logN() < math.Log(want) || s.logN() > math.Log(want)+1e-8 {
			t.Errorf("%v: ln N = %v, want a little above %v, %v", c, s.logN(), math.Log(want), err)
		}
	}
}

// TestRotationPairsFollowTheirDistribution holds drawn pairs against enumeration; those of another
// period or noise are rejected.
func TestRotationPairsFollowTheirDistribution(t *testing.T) {
	for _, c := range rotationCases {
		list := rotationPatterns(c.c.Steps, c.period)
		judge := func(p *pairs) error {
			weights, total := map[string]float64{}, 0.0
			eachTuple(c.c, list, c.sigma, 2, func(tuple []int, w float64) {
				weights[tupleKey(list, tuple)] += w
				total += w
			})
			return tuplesFollow(weights, total, c.String(), p.draw, 15000)
		}
		if err := judge(c.pairs(t)); err != nil {
			t.Errorf("%v: %v", c, err)
		}
		if c.period == 1 {
			continue // one pair only
		}
		for _, twin := range []rotationCase{{c.c, c.period + 1 + c.period/3, c.sigma}, {c.c, c.period, 1.6 * c.sigma}} {
			if judge(twin.pairs(t)) == nil {
				t.Errorf("%v: the test accepts the pairs of %v", c, twin)
			}
		}
	}
}

package tilt

import (
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/montecarlo"
	"minsep/mechanism"
	"minsep/sampling"
)

// dense has a full lower triangle of random entries, zeros among them.
func dense(rng *rand.Rand, steps int) *mechanism.Strategy {
	s := &mechanism.Strategy{Kind: mechanism.KindDense, Steps: steps, Columns: make([][]float64, steps)}
	for i := range s.Columns {
		for r := range steps - i {
			x := rng.Float64()
			if r > 0 && x < .2 {
				x = 0
			}
			if r == 0 {
				x += .1
			}
			s.Columns[i] = append(s.Columns[i], x)
		}
	}
	return s
}

// onceCases are strategies of every kind, with separations from n on and every corner of the
// probability: with p = 1 a warm start at b = n leaves nobody out.
func onceCases() (cases []tableCase) {
	rng := rand.New(rand.NewPCG(31, 1))
	for n := 1; n <= 6; n++ {
		strategies := []*mechanism.Strategy{dense(rng, n), varying(n, 2), varying(n, n), toeplitz(n, []float64{1, .6, .4, .2, .1, .05}[:min(n, 3)]...),
			{Kind: mechanism.KindToeplitz, Steps: n, Toeplitz: []float64{1, .6, .3, .2, .1, .05}[:n], Normalized: true}}
		for k, c := range strategies {
			for _, sep := range []int{n, n + 1 + k} {
				p := []float64{.05, .3, .8, 1}[rng.IntN(4)]
				for _, theta := range []int{1, 2, 3} {
					cases = append(cases, tableCase{c, sep, p, .6 + rng.Float64(), theta})
				}
			}
		}
		cases = append(cases, tableCase{strategies[0], n, 1, .7, 3}, tableCase{strategies[3], n, 1, .7, 3})
	}
	return cases
}

// spec has a warm start, with which all steps have one probability.
func (c tableCase) spec() montecarlo.Spec {
	return specOf(sampling.BMinSep{Prob: c.p, Steps: c.c.Steps, MinSep: c.sep, WarmStart: true}, c.c, c.sigma)
}

// TestSingleOf: laws of at most one participation, with one probability at all steps.
func TestSingleOf(t *testing.T) {
	for _, x := range []struct {
		scheme sampling.Scheme
		each   float64 // 0 for none
	}{
		{sampling.EpochMinSep{Steps: 24, MinSep: 4, EpochSteps: 24}, 1. / 24},
		{sampling.EpochMinSep{Steps: 24, MinSep: 4, EpochSteps: 1000}, 1. / 1000},
		{sampling.EpochMinSep{Steps: 24, MinSep: 4, EpochSteps: 23}, 0},
		{sampling.BallsInBins{Steps: 24, Period: 24}, 1. / 24},
		{sampling.BallsInBins{Steps: 24, Period: 23}, 0},
		{sampling.BMinSep{Prob: .1, Steps: 24, MinSep: 30, WarmStart: true}, .1 / 3.9},
		{sampling.BMinSep{Prob: .1, Steps: 24, MinSep: 30}, 0},
		{sampling.Rotation{Steps: 24, EpochSteps: 40}, 1. / 40},
	} {
		got, ok := singleOf(specOf(x.scheme, toeplitz(24, 1), 1))
		if ok != (x.each > 0) || ok && (math.Abs(got.each/x.each-1) > 1e-12 || math.Abs(got.never-(1-24*x.each)) > 1e-12) {
			t.Errorf("%+v: %+v, %t", x.scheme, got, ok)
		}
	}
}

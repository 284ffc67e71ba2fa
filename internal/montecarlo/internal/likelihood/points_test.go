package likelihood

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"minsep/sampling"
)

// lawPatternsOf lists all patterns by the law itself.
func lawPatternsOf(l sampling.Law, n int) (list []pattern) {
	var walk func(at sampling.Point, x []float64, prob float64)
	walk = func(at sampling.Point, x []float64, prob float64) {
		if prob == 0 {
			return
		}
		if at.Step >= n {
			list = append(list, pattern{append([]float64(nil), x...), prob})
			return
		}
		p, in, out := l.Next(at)
		if p > 0 {
			x[at.Step] = 1
			walk(in, x, prob*p)
			x[at.Step] = 0
		}
		if p < 1 {
			walk(out, x, prob*(1-p))
		}
	}
	for _, s := range l.Start {
		walk(s.Point, make([]float64, n), s.Prob)
	}
	return list
}

// someLaws are of n steps, with corners.
func someLaws(rng *rand.Rand, n int) map[string]sampling.Law {
	b := 1 + rng.IntN(4)
	T := b + rng.IntN(4)
	p := []float64{1, 0.3, 0.8, 1e-7, 0.05}[rng.IntN(5)]
	return map[string]sampling.Law{
		"warm":     sampling.BMinSep{Prob: p, Steps: n, MinSep: b, WarmStart: true}.Law(),
		"cold":     sampling.BMinSep{Prob: p, Steps: n, MinSep: b}.Law(),
		"wide":     sampling.BMinSep{Prob: p, Steps: n, MinSep: 2 * n, WarmStart: true}.Law(),
		"epochs":   sampling.EpochMinSep{Steps: n, MinSep: b, EpochSteps: T}.Law(),
		"rotation": sampling.Rotation{Steps: n, EpochSteps: T}.Law(),
		"bins":     sampling.BallsInBins{Steps: n, Period: T}.Law(),
		"secret":   sampling.CyclicPoisson{Prob: p, Steps: n, MinSep: b, SecretPartition: true}.Law(),
		"public":   sampling.CyclicPoisson{Prob: p, Steps: n, MinSep: b}.Law(),
		"twice": {Start: []sampling.Start{{Point: sampling.Point{Step: 1}, Prob: 1}}, Next: func(at sampling.Point) (float64, sampling.Point, sampling.Point) {
			in := sampling.Point{Step: at.Step + 2, State: at.State + 1}
			if at.State == 1 {
				in.Step = sampling.Never
			}
			return p, in, sampling.Point{Step: at.Step + 1, State: at.State}
		}},
		"circle": {Start: []sampling.Start{{Prob: 0.5}, {Point: sampling.Point{State: 1}, Prob: 0.5}}, Next: func(at sampling.Point) (float64, sampling.Point, sampling.Point) {
			q := 0.4
			if at.State > 0 {
				q = 0
			}
			return q, sampling.Point{Step: at.Step + 1, State: 2}, sampling.Point{Step: at.Step + 1, State: (at.State + 2) % 3}
		}},
	}
}

// TestPointsByEnumeration holds the ratio of a table, for columns of any number of bands, to the sum
// over all patterns of its law.
func TestPointsByEnumeration(t *testing.T) {
	rng := rand.New(rand.NewPCG(18, 4))
	cases, overlapping := 0, 0
	for range 60 {
		n := 1 + rng.IntN(9)
		c := randomColumns(rng, n, 1+rng.IntN(n), rng.IntN(3))
		sigma := 0.5 + 2*rng.Float64()
		for name, l := range someLaws(rng, n) {
			table := tableOf(t, l, n)
			patterns := lawPatternsOf(l, n)
			ratio := pointsOf(t, l, c, sigma)
			y := randomOutput(rng, c, sigma, patterns)
			equal(t, fmt.Sprintf("%s n=%d bands=%d", name, n, c.Bands), LogRatio(ratio, c, sigma, y), enumerated(c, sigma, patterns, y))
			equal(t, name+", forked", LogRatio(ratio.Fork(), c, sigma, y), LogRatio(ratio, c, sigma, y))
			if cases++; c.Bands > table.Separation() {
				overlapping++
			}
		}
	}
	if overlapping < cases/4 {
		t.Errorf("columns of one example overlap in %d of %d cases only", overlapping, cases)
	}
}

// TestOverlapsInTooManyWays: a law whose participations overlap in too many ways is refused.
func TestOverlapsInTooManyWays(t *testing.T) {
	table := tableOf(t, sampling.Poisson{Prob: 0.5, Steps: 40}.Law(), 40)
	if _, err := NewPoints(table, Toeplitz(40, make([]float64, 40)), 1); err == nil {
		t.Error("Poisson sampling with 40 bands has a ratio of 2^40 turns")
	}
	if _, err := NewPoints(table, Toeplitz(40, make([]float64, 8)), 1); err != nil {
		t.Errorf("with 8 bands: %v", err)
	}
}

package likelihood

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/montecarlo/internal/law"
	"minsep/internal/montecarlo/internal/law/lawtest"
)

// lawPatterns are the patterns of a law.
func lawPatterns(l law.Law, steps int) (all []pattern) {
	for _, p := range lawtest.Patterns(l, steps) {
		x := make([]float64, steps)
		for _, i := range p.Steps {
			x[i] = 1
		}
		all = append(all, pattern{x, p.Prob})
	}
	return all
}

// eachLaw runs over random laws of every kind, one of them known to tests alone.
func eachLaw(f func(name string, l law.Law, c *Columns, sigma float64, rng *rand.Rand)) {
	rng := rand.New(rand.NewPCG(51, 1))
	for _, n := range []int{1, 2, 7, 9} {
		for _, b := range []int{1, 2, 3, 10} {
			for range 3 {
				p := []float64{.02, .3, .9, 1}[rng.IntN(4)]
				laws := []law.Law{law.NewMinSep(b, p, false), law.NewMinSep(b, p, true), lawtest.Tide{MinSep: b, Prob: p}, law.NewEpochs(n, b, b+rng.IntN(n+3)),
					law.NewOnce(n, b, law.Single{First: p / float64(n), Ratio: 1, Never: 1 - p}), law.NewOnce(n, b, law.Single{First: p / 2, Ratio: 1 - p/2, Never: math.Pow(1-p/2, float64(n))})}
				l := laws[rng.IntN(len(laws))]
				c := randomColumns(rng, n, min(b, n), rng.IntN(3))
				sigma := []float64{.1, .7, 3}[rng.IntN(3)]
				f(fmt.Sprintf("%T %+v n=%d w=%d σ=%g", l, l, n, c.Bands, sigma), l, c, sigma, rng)
			}
		}
	}
}

// TestChainByEnumeration holds ratios, posteriors and the probability of no participation against
// all patterns.
func TestChainByEnumeration(t *testing.T) {
	eachLaw(func(name string, l law.Law, c *Columns, sigma float64, rng *rand.Rand) {
		norms := c.SquaredNorms(1 / (sigma * sigma))
		patterns := lawPatterns(l, c.Steps)
		ratio, post := NewChain(l, norms), NewChainPosterior(l, norms)
		never := 0.0
		for _, p := range patterns {
			if dot(p.x, p.x) == 0 {
				never += p.prob
			}
		}
		if got := math.Exp(post.Never()); !(got <= never && got >= never*(1-1e-9)) && got > 1e-300 {
			t.Errorf("%s: no participation with probability %v, want %v", name, got, never)
		}
		for range 3 {
			y := randomOutput(rng, c, sigma, patterns)
			want := enumerated(c, sigma, patterns, y)
			equal(t, name, LogRatio(ratio.Fork(), c, sigma, y), want)
			u, got := make([]float64, c.Steps), make([]float64, c.Steps)
			for i := range u {
				u[i] = c.Dot(i, y) / (sigma * sigma)
			}
			equal(t, name+" posterior", post.Given(u, got), want)
			for i := range got {
				var with []pattern
				for _, p := range patterns {
					if p.x[i] > 0 {
						with = append(with, p)
					}
				}
				if share := math.Exp(enumerated(c, sigma, with, y) - want); math.Abs(got[i]-share) > 1e-10 {
					t.Errorf("%s: participation at step %d with probability %v, want %v", name, i, got[i], share)
				}
			}
		}
	})
}

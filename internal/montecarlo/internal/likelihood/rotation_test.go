package likelihood

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/montecarlo/internal/law"
)

// rotationPatterns enumerates F3.12: a place of each period, uniform and independent.
func rotationPatterns(p Periods) []pattern {
	out := []pattern{{make([]float64, p.Steps), 1}}
	for first := 0; first < p.Steps; first += p.Period {
		var next []pattern
		for _, s := range out {
			for v := range p.Period {
				x := append([]float64(nil), s.x...)
				if first+v < p.Steps {
					x[first+v] = 1
				}
				next = append(next, pattern{x, s.prob / float64(p.Period)})
			}
		}
		out = next
	}
	return out
}

// eachRotation runs over sizes: bands of a period and of one step, runs that are shorter than a
// period, one step longer, and no multiple of it; columns of equal shape, of equal norm, and any.
func eachRotation(seed uint64, most int, f func(name string, p Periods, c *Columns, sigma float64, rng *rand.Rand)) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for period := 1; period <= 5; period++ {
		for n := 1; n <= 4*period+1; n++ {
			p := Periods{n, period}
			if math.Pow(float64(period), float64(p.Count())) > float64(most) {
				continue
			}
			for w := 1; w <= min(period, n); w++ {
				for kind := range 3 {
					c := randomColumns(rng, n, w, kind)
					sigma := []float64{0.1, 0.7, 3}[rng.IntN(3)]
					f(fmt.Sprintf("%+v w=%d kind=%d σ=%g", p, w, kind, sigma), p, c, sigma, rng)
				}
			}
		}
	}
}

func TestRotationByEnumeration(t *testing.T) {
	cases := 0
	eachRotation(61, 700, func(name string, p Periods, c *Columns, sigma float64, rng *rand.Rand) {
		patterns := rotationPatterns(p)
		ratio := NewRotation(p, c, 1/(sigma*sigma))
		for range 3 {
			y := randomOutput(rng, c, sigma, patterns)
			equal(t, name, LogRatio(ratio, c, sigma, y), enumerated(c, sigma, patterns, y))
			cases++
		}
	})
	if cases < 500 {
		t.Errorf("%d cases only", cases)
	}
}

// TestRotationPosteriorByEnumeration holds the probability of a participation at each step too.
func TestRotationPosteriorByEnumeration(t *testing.T) {
	eachRotation(67, 300, func(name string, p Periods, c *Columns, sigma float64, rng *rand.Rand) {
		patterns := rotationPatterns(p)
		post := NewRotationPosterior(p, c, 1/(sigma*sigma)).Fork()
		u, got := make([]float64, p.Steps), make([]float64, p.Steps)
		for range 2 {
			y := randomOutput(rng, c, sigma, patterns)
			for i := range u {
				u[i] = c.Dot(i, y) / (sigma * sigma)
			}
			logF := post.Given(u, got)
			equal(t, name, logF, enumerated(c, sigma, patterns, y))
			for i := range got {
				var with []pattern
				for _, s := range patterns {
					if s.x[i] > 0 {
						with = append(with, s)
					}
				}
				if want := math.Exp(enumerated(c, sigma, with, y) - logF); math.Abs(got[i]-want) > 1e-9 {
					t.Errorf("%s: step %d: %.12g, want %.12g", name, i, got[i], want)
				}
			}
		}
	})
}

// TestRotationOfOneBand is epoch-min-sep without a least distance.
func TestRotationOfOneBand(t *testing.T) {
	rng := rand.New(rand.NewPCG(71, 1))
	for _, n := range []int{1, 30, 31, 300} {
		for _, period := range []int{1, 7, 30, 400} {
			c := randomColumns(rng, n, 1, 2)
			one := NewChain(law.NewEpochs(n, 1, period), c.SquaredNorms(4))
			for range 3 {
				y := make([]float64, n)
				for i := range y {
					y[i] = rng.NormFloat64()
				}
				equal(t, fmt.Sprintf("n=%d T=%d", n, period), LogRatio(NewRotation(Periods{n, period}, c, 4), c, 0.5, y), LogRatio(one, c, 0.5, y))
			}
		}
	}
}

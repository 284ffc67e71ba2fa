package likelihood

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/must"
	"minsep/sampling"
)

// pattern is how many examples participate at each step, with its probability.
type pattern struct {
	x    []float64
	prob float64
}

// together enumerates the sum of independent patterns.
func together(a, b []pattern) []pattern {
	var out []pattern
	for _, s := range a {
		for _, t := range b {
			x := make([]float64, len(s.x))
			for i := range x {
				x[i] = s.x[i] + t.x[i]
			}
			out = append(out, pattern{x, s.prob * t.prob})
		}
	}
	return out
}

// enumerated returns ln P(y)/Q(y) of a mixture, with C as a full matrix.
func enumerated(c *Columns, sigma float64, patterns []pattern, y []float64) float64 {
	total := math.Inf(-1)
	for _, s := range patterns {
		mean := make([]float64, c.Steps)
		for i, m := range s.x {
			column, scale := c.Column(i)
			for k, v := range column {
				mean[i+k] += m * scale * v
			}
		}
		total = LogSum(total, math.Log(s.prob)+(dot(mean, y)-dot(mean, mean)/2)/(sigma*sigma))
	}
	return total
}

func randomColumns(rng *rand.Rand, n, bands, kind int) *Columns {
	first := make([]float64, bands)
	for k := range first {
		first[k] = 0.2 + rng.Float64()
	}
	switch kind {
	case 0:
		return Toeplitz(n, first)
	case 1: // every column by its norm
		c := Toeplitz(n, first)
		c.scale = c.SquaredNorms(1)
		for i, v := range c.scale {
			c.scale[i] = 1 / math.Sqrt(v)
		}
		return c
	}
	columns := make([][]float64, n)
	for i := range columns {
		columns[i] = make([]float64, min(bands, n-i))
		for k := range columns[i] {
			columns[i][k] = rng.Float64()
		}
	}
	return General(columns)
}

func randomOutput(rng *rand.Rand, c *Columns, sigma float64, patterns []pattern) []float64 {
	y := make([]float64, c.Steps)
	s := patterns[rng.IntN(len(patterns))]
	for i := range y {
		y[i] += sigma * rng.NormFloat64()
		column, scale := c.Column(i)
		for k, v := range column {
			y[i+k] += s.x[i] * scale * v
		}
	}
	return y
}

type grid struct {
	process sampling.BMinSep
	c       *Columns
	sigma   float64
}

// each runs over sizes, starts, probabilities (1 among them) and kinds of C.
func each(seed uint64, steps int, bands func(b int) int, f func(name string, g grid, rng *rand.Rand)) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, b := range []int{1, 2, 3, 5} {
		for _, n := range []int{1, 2, steps - 1, steps} {
			for _, p := range []float64{0.05, 0.4, 1} {
				for _, warm := range []bool{false, true} {
					kind := rng.IntN(3)
					sigma := []float64{0.1, 0.7, 3}[rng.IntN(3)]
					g := grid{sampling.BMinSep{Steps: n, MinSep: b, Prob: p, WarmStart: warm}, randomColumns(rng, n, min(bands(b), n), kind), sigma}
					f(fmt.Sprintf("n=%d b=%d w=%d p=%g warm=%v σ=%g kind=%d", n, b, g.c.Bands, p, warm, sigma, kind), g, rng)
				}
			}
		}
	}
}

func equal(t *testing.T, name string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-11*(1+math.Abs(want))) {
		t.Errorf("%s: %.16g, want %.16g", name, got, want)
	}
}

func (g grid) factor() float64 { return 1 / (g.sigma * g.sigma) }

// pointsOf is the ratio of a law.
func pointsOf(t *testing.T, l sampling.Law, c *Columns, sigma float64) *Points {
	t.Helper()
	p := must.Get(NewPoints(tableOf(t, l, c.Steps), c, 1/(sigma*sigma)))(t)
	return p
}

func tableOf(t *testing.T, l sampling.Law, n int) *sampling.Table {
	t.Helper()
	table := must.Get(l.Tabulate(n))(t)
	return table
}

// TestExamplesByEnumeration: all pairs of patterns, and all triples for three examples, under any
// law and for any number of bands.
func TestExamplesByEnumeration(t *testing.T) {
	rng := rand.New(rand.NewPCG(18, 9))
	for k, steps := range map[int]int{1: 7, 2: 5, 3: 3} {
		for range 12 {
			n := 1 + rng.IntN(steps)
			c := randomColumns(rng, n, 1+rng.IntN(n), rng.IntN(3))
			sigma := 0.5 + 2*rng.Float64()
			for name, l := range someLaws(rng, n) {
				one := lawPatternsOf(l, n)
				patterns := one
				for range k - 1 {
					patterns = together(patterns, one)
				}
				y := randomOutput(rng, c, sigma, patterns)
				ratio := must.Get(NewExamples(tableOf(t, l, n), c, 1/(sigma*sigma), k))(t)
				got := LogRatio(ratio.Fork(), c, sigma, y)
				equal(t, fmt.Sprintf("%s k=%d n=%d bands=%d", name, k, n, c.Bands), got, enumerated(c, sigma, patterns, y))
			}
		}
	}
}

// TestPosteriorByEnumeration: probabilities of each step given an output, and of no step.
func TestPosteriorByEnumeration(t *testing.T) {
	rng := rand.New(rand.NewPCG(18, 10))
	for range 30 {
		n := 1 + rng.IntN(8)
		c := randomColumns(rng, n, 1+rng.IntN(n), rng.IntN(3))
		sigma := 0.5 + 2*rng.Float64()
		for name, l := range someLaws(rng, n) {
			patterns := lawPatternsOf(l, n)
			p := NewPosterior(pointsOf(t, l, c, sigma))
			y := randomOutput(rng, c, sigma, patterns)
			u, participates := make([]float64, n), make([]float64, n)
			for i := range u {
				u[i] = c.Dot(i, y) / (sigma * sigma)
			}
			logF := p.Given(u, participates)
			equal(t, name, logF, enumerated(c, sigma, patterns, y))
			want, never := make([]float64, n), 0.0
			for _, s := range patterns {
				prob, none := math.Exp(enumerated(c, sigma, []pattern{s}, y)-logF), true
				for i, x := range s.x {
					want[i] += x * prob
					none = none && x == 0
				}
				if none {
					never += s.prob
				}
			}
			for i := range want {
				equal(t, fmt.Sprintf("%s n=%d bands=%d step %d", name, n, c.Bands, i), participates[i], want[i])
			}
			if log := p.LogNever(); log > math.Log(never) || log < math.Log(never)-1e-9 {
				t.Errorf("%s: ln Pr[no participation] = %v, want %v", name, log, math.Log(never))
			}
		}
	}
}

// TestPathsByEnumeration: drawn participations are those of the posterior.
func TestPathsByEnumeration(t *testing.T) {
	rng := rand.New(rand.NewPCG(18, 11))
	const draws = 4000
	for range 4 {
		n := 3 + rng.IntN(4)
		c := randomColumns(rng, n, 1+rng.IntN(n), rng.IntN(3))
		sigma := 0.5 + 2*rng.Float64()
		for name, l := range someLaws(rng, n) {
			patterns := lawPatternsOf(l, n)
			y := randomOutput(rng, c, sigma, patterns)
			u := func(i int) float64 { return c.Dot(i, y) / (sigma * sigma) }
			paths := NewPaths(pointsOf(t, l, c, sigma)).Fork()
			paths.Given(u)
			want, logF := map[string]float64{}, enumerated(c, sigma, patterns, y)
			for _, s := range patterns {
				var steps []int
				for i, x := range s.x {
					if x > 0 {
						steps = append(steps, i)
					}
				}
				want[fmt.Sprint(steps)] += math.Exp(enumerated(c, sigma, []pattern{s}, y) - logF)
			}
			got := map[string]float64{}
			for range draws {
				got[fmt.Sprint(paths.Draw(nil, rng))]++
			}
			for steps, count := range got {
				p := want[steps]
				if off := math.Abs(count/draws - p); off > 6*math.Sqrt(p*(1-p)/draws)+4./draws {
					t.Errorf("%s n=%d bands=%d: %s has the probability %v, drawn %v", name, n, c.Bands, steps, p, count/draws)
				}
			}
		}
	}
}

// publishedPatterns enumerates the distribution of arXiv 2602.09338, Theorem 6.1: after a
// participation the owner is blocked for b-1 steps.
func publishedPatterns(p sampling.MultiOwner, k int) []pattern {
	var out []pattern
	var walk func(i int, x []float64, prob float64)
	walk = func(i int, x []float64, prob float64) {
		if i >= p.Steps {
			out = append(out, pattern{append([]float64(nil), x...), prob})
			return
		}
		for j := range k + 1 {
			next := i + 1
			if j > 0 {
				next = i + p.MinSep
			}
			x[i] = float64(j)
			if q := math.Exp(logBinomials(k, p.Prob)[j]); q > 0 {
				walk(next, x, prob*q)
			}
			x[i] = 0
		}
	}
	walk(0, make([]float64, p.Steps), 1)
	return out
}

func TestAlgorithm3ByEnumeration(t *testing.T) {
	for k := 1; k <= 3; k++ {
		each(uint64(20+k), 5, func(b int) int { return b }, func(name string, g grid, rng *rand.Rand) {
			name = fmt.Sprintf("k=%d %s", k, name)
			coins := sampling.MultiOwner{Prob: g.process.Prob, Steps: g.process.Steps, MinSep: g.process.MinSep}
			published := publishedPatterns(coins, k)
			y := randomOutput(rng, g.c, g.sigma, published)
			ratio := must.Get(NewPublishedOwner(coins, g.c, k, g.factor()))(t)
			equal(t, name, LogRatio(ratio.Fork(), g.c, g.sigma, y), enumerated(g.c, g.sigma, published, y))
		})
	}
}

// TestLargeRatios: p = 1 cold is one Gaussian pair, so ratios of ±10000 have a closed form.
func TestLargeRatios(t *testing.T) {
	const n, sigma = 400, 0.1
	c := Toeplitz(n, []float64{1, 0.5, 0.25})
	norms := c.SquaredNorms(1 / (sigma * sigma))
	for _, level := range []float64{-0.35, 0.9, 1.1} {
		y := make([]float64, n)
		want := 0.0
		for i := range y {
			y[i] = level
		}
		for i := 0; i < n; i += 5 {
			want += c.Dot(i, y)/(sigma*sigma) - norms[i]/2
		}
		got := LogRatio(pointsOf(t, sampling.BMinSep{Steps: n, MinSep: 5, Prob: 1}.Law(), c, sigma), c, sigma, y)
		if !(math.Abs(got-want) < 1e-9) || math.Abs(want) < 5000 || math.Abs(want) > 12000 {
			t.Errorf("level %g: %.15g, want %.15g", level, got, want)
		}
	}
}

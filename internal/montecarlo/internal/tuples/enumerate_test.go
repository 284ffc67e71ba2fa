package tuples

import (
	"context"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/must"
	"minsep/sampling"
)

type (
	Law   = sampling.Law
	Point = sampling.Point
	Start = sampling.Start
)

const Never = sampling.Never

// lawOf is a law in a run of n steps.
func lawOf(l Law, n int) law {
	t, err := l.Tabulate(n)
	if err != nil {
		panic(err)
	}
	return newLaw(t)
}

// makeTable is the table of tuples of a law.
func makeTable(l Law, g *likelihood.Gram, theta int, o Options) (*Table, error) {
	return newTable(context.Background(), lawOf(l, g.Steps), g, theta, o)
}

// bMinSep is b-min-sep (F3.2), with a stationary start if warm.
func bMinSep(b int, p float64, warm bool) Law {
	start := []Start{{Prob: 1}}
	if warm {
		total := 1 + float64(b-1)*p
		start[0].Prob = 1 / total
		for r := 1; r < b; r++ {
			start = append(start, Start{Point: Point{Step: r}, Prob: p / total})
		}
	}
	return Law{Start: start, Next: func(at Point) (float64, Point, Point) {
		return p, Point{Step: at.Step + b}, Point{Step: at.Step + 1}
	}}
}

// epochMinSep is once in each epoch of T ≥ b steps, at least b apart (F3.8).
func epochMinSep(b, T int) Law {
	start := []Start{{Prob: float64(T-b+1) / float64(T)}}
	for r := 1; r < b; r++ {
		start = append(start, Start{Point: Point{Step: r}, Prob: 1 / float64(T)})
	}
	return Law{Start: start, Next: func(at Point) (float64, Point, Point) {
		place, epoch := at.Step%T, at.Step/T
		return 1 / float64(T-max(place, b-1)), Point{Step: max(at.Step+b, (epoch+1)*T)}, Point{Step: at.Step + 1}
	}}
}

// rotation is one uniform step in each period of T steps (F3.12).
func rotation(T int) Law {
	return Law{Start: []Start{{Prob: 1}}, Next: func(at Point) (float64, Point, Point) {
		return 1 / float64(T-at.Step%T), Point{Step: (at.Step/T + 1) * T}, Point{Step: at.Step + 1}
	}}
}

// cyclic is one of T parts, a secret one, and with probability q each T-th step.
func cyclic(T int, q float64) Law {
	var start []Start
	for r := range T {
		start = append(start, Start{Point: Point{Step: r}, Prob: 1 / float64(T)})
	}
	return Law{Start: start, Next: func(at Point) (float64, Point, Point) {
		next := Point{Step: at.Step + T}
		return q, next, next
	}}
}

// once is at most once, at each step with probability a.
func once(a float64) Law {
	return Law{Start: []Start{{Prob: 1}}, Next: func(at Point) (float64, Point, Point) {
		return min(1, a/(1-a*float64(at.Step))), Point{Step: Never}, Point{Step: at.Step + 1}
	}}
}

// tired has two states: the second participation of an example waits for b steps, and its chances
// fall with each.
func tired(b int) Law {
	return Law{Start: []Start{{Prob: 0.7}, {Point: Point{State: 1}, Prob: 0.3}}, Next: func(at Point) (float64, Point, Point) {
		return 0.5 / float64(1+at.State), Point{Step: at.Step + b, State: at.State + 1}, Point{Step: at.Step + 1, State: at.State}
	}}
}

// circle has points of probability 0: a walk on a circle that may take part in one of three states.
func circle() Law {
	return Law{Start: []Start{{Prob: 0.5}, {Point: Point{State: 1}, Prob: 0.5}}, Next: func(at Point) (float64, Point, Point) {
		p := 0.4
		if at.State > 0 {
			p = 0
		}
		return p, Point{Step: at.Step + 1, State: 2}, Point{Step: at.Step + 1, State: (at.State + 2) % 3}
	}}
}

// patterns are all participation patterns of a law with their probabilities.
func patterns(l Law, n int) (list [][]int, prob []float64) {
	index := map[string]int{}
	var walk func(at Point, x []int, p float64)
	walk = func(at Point, x []int, p float64) {
		if p == 0 {
			return
		}
		if at.Step >= n {
			k, ok := index[fmt.Sprint(x)]
			if !ok {
				k = len(list)
				index[fmt.Sprint(x)] = k
				list, prob = append(list, slices.Clone(x)), append(prob, 0)
			}
			prob[k] += p
			return
		}
		q, in, out := l.Next(at)
		if q > 0 {
			walk(in, append(x[:len(x):len(x)], at.Step), p*q)
		}
		if q < 1 {
			walk(out, x, p*(1-q))
		}
	}
	for _, s := range l.Start {
		walk(s.Point, nil, s.Prob)
	}
	return list, prob
}

// randomColumns are columns of random entries, some of them 0, or of a Toeplitz matrix.
func randomColumns(rng *rand.Rand, n, bands int) *likelihood.Columns {
	entry := func() float64 {
		if rng.IntN(6) == 0 {
			return 0
		}
		return 0.1 + 0.9*rng.Float64()
	}
	if rng.IntN(2) == 0 {
		column := make([]float64, bands)
		for j := range column {
			column[j] = entry()
		}
		column[0] = 1
		return likelihood.Toeplitz(n, column)
	}
	columns := make([][]float64, n)
	for i := range columns {
		columns[i] = make([]float64, min(n-i, bands))
		for k := range columns[i] {
			columns[i][k] = entry()
		}
	}
	return likelihood.General(columns)
}

// inners are ⟨Cx,Cy⟩/σ² of all pairs of patterns.
func inners(list [][]int, c *likelihood.Columns, factor float64) [][]float64 {
	inner := make([][]float64, len(list))
	for a := range list {
		inner[a] = make([]float64, len(list))
		for b := range list {
			for _, i := range list[a] {
				for _, j := range list[b] {
					inner[a][b] += factor * c.Inner(i, j)
				}
			}
		}
	}
	return inner
}

// eachTuple calls f with every tuple of patterns, by their numbers, and its term of N_θ.
func eachTuple(theta int, prob []float64, inner [][]float64, f func(tuple []int, term float64)) {
	var add func(tuple []int, term float64)
	add = func(tuple []int, term float64) {
		if len(tuple) == theta {
			f(tuple, term)
			return
		}
		for a := range prob {
			e := 0.0
			for _, b := range tuple {
				e += inner[a][b]
			}
			add(append(tuple[:len(tuple):len(tuple)], a), term*prob[a]*math.Exp(e))
		}
	}
	add(nil, 1)
}

const mostTuples = 1e5

func smallLaws(rng *rand.Rand, n int) map[string]Law {
	T := 2 + rng.IntN(3)
	b := 1 + rng.IntN(T)
	p := []float64{0.1 + 0.5*rng.Float64(), 1e-9, 1}[min(2, rng.IntN(8))]
	return map[string]Law{
		"b-min-sep warm": bMinSep(b, p, true),
		"b-min-sep cold": bMinSep(b, p, false),
		"poisson":        bMinSep(1, p, false),
		"epoch-min-sep":  epochMinSep(b, T),
		"rotation":       rotation(T),
		"balls-in-bins":  cyclic(T, 1),
		"cyclic":         cyclic(T, 0.5),
		"once":           once(1 / float64(n+1)),
		"once for sure":  once(1 / float64(n)),
		"tired":          tired(b),
		"circle":         circle(),
	}
}

var plenty = Options{MaxBytes: 1 << 30, MostLogN: math.Inf(1)}

// TestTablesAreTheSumOverAllTuples holds for any law and any number of bands.
func TestTablesAreTheSumOverAllTuples(t *testing.T) {
	rng := rand.New(rand.NewPCG(7, 7))
	cases, worst := 0, 0.0
	for range 60 {
		n := 3 + rng.IntN(5)
		c := randomColumns(rng, n, 1+rng.IntN(min(n, 5)))
		factor := 1 / math.Pow(0.7+1.3*rng.Float64(), 2)
		for name, l := range smallLaws(rng, n) {
			list, prob := patterns(l, n)
			inner := inners(list, c, factor)
			for theta := 1; theta <= 4 && math.Pow(float64(len(list)), float64(theta)) < mostTuples; theta++ {
				want, lost := 0.0, 0.0 // what rounding lost of the sum
				eachTuple(theta, prob, inner, func(_ []int, term float64) {
					term -= lost
					sum := want + term
					want, lost = sum, sum-want-term
				})
				o := plenty
				o.Keep = rng.IntN(2) == 0
				table, err := makeTable(l, likelihood.NewGram(c, factor), theta, o)
				if err != nil {
					t.Fatal(name, err)
				}
				d := math.Abs(table.LnN - math.Log(want))
				if worst = max(worst, d); !(d < 1e-12) || d > table.Rounding+1e-14 {
					t.Errorf("%s n=%d bands=%d theta=%d: ln N = %g, want %g, rounding %g", name, n, c.Bands, theta, table.LnN, math.Log(want), table.Rounding)
				}
				cases++
			}
		}
	}
	t.Logf("%d cases, worst difference of ln N %g", cases, worst)
}

// TestBlocksAreAnUpperBound: N̂ is never below N, and N for blocks of one step.
func TestBlocksAreAnUpperBound(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 5))
	cases, sum := 0, 0.0
	for range 80 {
		n := 5 + rng.IntN(9)
		b := 2 + rng.IntN(4)
		c := randomColumns(rng, n, 1+rng.IntN(b))
		factor := 1 / math.Pow(0.7+1.3*rng.Float64(), 2)
		p := 0.1 + 0.5*rng.Float64()
		for k, l := range []Law{bMinSep(b, p, true), bMinSep(b, p, false), epochMinSep(b, b+rng.IntN(4)), tired(b)} {
			for theta := 2; theta <= 4; theta++ {
				exact := must.Get(makeTable(l, likelihood.NewGram(c, factor), theta, plenty))(t)
				for block := 1; block <= b; block++ {
					o := plenty
					o.Block = block
					table, err := makeTable(l, likelihood.NewGram(c, factor), theta, o)
					if err != nil {
						t.Fatal(k, err)
					}
					d := table.LnN - exact.LnN
					cases++
					sum += d
					if d < -1e-12 || block == 1 && d > 1e-12 {
						t.Errorf("law %d n=%d b=%d bands=%d theta=%d blocks of %d: ln N̂ is %g above ln N = %g", k, n, b, c.Bands, theta, block, d, exact.LnN)
					}
				}
			}
		}
	}
	t.Logf("%d cases, mean difference %.3f", cases, sum/float64(cases))
}

type coins struct{ *rand.Rand }

func (c coins) Float64() float64 { return (float64(c.Uint64()>>12) + 0.5) / (1 << 52) }

// TestTuplesFollowTheirDistribution: the mean weight of each tuple, as participations by step, is
// its term over N.
func TestTuplesFollowTheirDistribution(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 9))
	const draws = 8000
	cases := 0
	check := func(name string, l Law, n, theta, block int, c *likelihood.Columns, factor float64) {
		list, prob := patterns(l, n)
		if math.Pow(float64(len(list)), float64(theta)) > mostTuples {
			return
		}
		cases++
		o := plenty
		o.Keep, o.Block = true, block
		table, err := makeTable(l, likelihood.NewGram(c, factor), theta, o)
		if err != nil {
			t.Fatal(name, err)
		}
		want := map[string]float64{}
		eachTuple(theta, prob, inners(list, c, factor), func(tuple []int, term float64) {
			times := make([]int, n)
			for _, a := range tuple {
				for _, i := range list[a] {
					times[i]++
				}
			}
			want[fmt.Sprint(times)] += term / math.Exp(table.LnN)
		})
		w := NewWalker(table)
		mean := map[string]float64{}
		var hits []kernel.Hit
		for range draws {
			var weight float64
			hits, weight = w.Draw(hits, coins{rng})
			if !(weight >= 0 && weight <= 1+1e-9) || block <= 1 && weight != 1 {
				t.Fatalf("%s: weight %v", name, weight)
			}
			times := make([]int, n)
			for _, h := range hits {
				times[h.Step] += h.Times
			}
			key := fmt.Sprint(times)
			mean[key] += weight / draws
		}
		for key := range mean {
			if want[key] == 0 {
				t.Errorf("%s: drew %s, of probability 0", name, key)
			}
		}
		for key, p := range want {
			// Weights are at most 1, so that the variance of their mean is at most p/draws.
			if sd := math.Sqrt(p / draws); math.Abs(mean[key]-p) > 6*sd+10./draws {
				t.Errorf("%s n=%d theta=%d block %d: tuple %s has %g, want %g (%.1f sd)", name, n, theta, block, key, mean[key], p, (mean[key]-p)/sd)
			}
		}
	}
	for range 3 {
		n := 4 + rng.IntN(4)
		c := randomColumns(rng, n, 1+rng.IntN(4))
		factor := 1 / math.Pow(0.9+1.3*rng.Float64(), 2)
		laws := smallLaws(rng, n)
		for _, name := range slices.Sorted(maps.Keys(laws)) {
			for theta := 1; theta <= 3; theta++ {
				check(name, laws[name], n, theta, 1, c, factor)
			}
		}
		b := 2 + rng.IntN(3)
		c = randomColumns(rng, n, 1+rng.IntN(b))
		for _, l := range []Law{bMinSep(b, 0.4, true), bMinSep(b, 0.3, false), epochMinSep(b, b+2), tired(b)} {
			for block := 2; block <= b; block++ {
				check("blocks", l, n, 2+rng.IntN(2), block, c, factor)
			}
		}
	}
	t.Logf("%d cases", cases)
}

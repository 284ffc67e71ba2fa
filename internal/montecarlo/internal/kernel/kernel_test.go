package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/must"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

func testBulk() *stream.Bulk { return stream.NewBulk(stream.PublicKey("kernel test", nil)) }

// sqrtColumn is the first column of the banded square root, of norm 1.
func sqrtColumn(bands int) []float64 {
	c := make([]float64, bands)
	c[0] = 1
	sum := 1.0
	for j := 1; j < bands; j++ {
		c[j] = c[j-1] * (1 - 0.5/float64(j))
		sum += c[j] * c[j]
	}
	for j := range c {
		c[j] /= math.Sqrt(sum)
	}
	return c
}

// ratioOf is the ratio of one example under a law.
func ratioOf(l sampling.Law, c *likelihood.Columns, sigma float64) *likelihood.Points {
	table, err := l.Tabulate(c.Steps)
	if err != nil {
		panic(err)
	}
	p, err := likelihood.NewPoints(table, c, 1/(sigma*sigma))
	if err != nil {
		panic(err)
	}
	return p
}

// mode is how a batch is computed.
func mode(k *Kernel, in *Input) string {
	var out Output
	out.LogRatio = make([]Row, len(k.recursions))
	switch r := k.recursions[0].fast; {
	case r == nil:
		return "log domain"
	case k.walkFast(in, &out, []int{0}, k.reach(in) > r.limit) != nil:
		return "refused"
	case k.reach(in) > r.limit:
		return "checked"
	}
	return "unchecked"
}

func general(c *likelihood.Columns) *likelihood.Columns {
	columns := make([][]float64, c.Steps)
	for i := range columns {
		column, scale := c.Column(i)
		columns[i] = multiplied(column, scale)
	}
	return likelihood.General(columns)
}

func randomHits(rng *rand.Rand, n, most int) *[Lanes][]Hit {
	hits := new([Lanes][]Hit)
	for l := range hits {
		for i := range n {
			if rng.IntN(n) < most {
				hits[l] = append(hits[l], Hit{i, 1 + rng.IntN(2)})
			}
		}
	}
	return hits
}

func compare(t *testing.T, name string, got, want float64) {
	t.Helper()
	if !(math.Abs(got-want) <= 1e-12*(10+math.Abs(want))) {
		t.Errorf("%s: %.16g, want %.16g: off by %.2g", name, got, want, got-want)
	}
}

// TestBatchAgainstLogDomain holds every lane to the log-domain ratio at the same y, at lengths
// around the blocks, bands around the change of method, and noise multipliers from where nothing is
// checked to where the linear scale is refused.
func TestBatchAgainstLogDomain(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	bulk := testBulk()
	modes := map[string]int{}
	for _, n := range []int{1, 2, 7, 191, 192, 193, 385, 1000} {
		for _, w := range []int{1, 2, 5, directBands, directBands + 1, 40, 257} {
			if w > n {
				continue
			}
			for _, sigma := range []float64{0.1, 0.25, 0.6, 2} {
				for _, kind := range []string{"toeplitz", "general", "normalized"} {
					if kind != "toeplitz" && rng.IntN(3) > 0 {
						continue
					}
					c := likelihood.Toeplitz(n, sqrtColumn(w))
					switch kind {
					case "general":
						c = general(c)
					case "normalized":
						c = likelihood.NewColumns(&mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: n, Toeplitz: sqrtColumn(w), Normalized: true})
					}
					p := sampling.BMinSep{Steps: n, MinSep: w + rng.IntN(3), Prob: []float64{0.002, 0.1, 0.7, 1}[rng.IntN(4)], WarmStart: rng.IntN(2) == 0}
					l := ratioOf(p.Law(), c, sigma)
					k := New(c, sigma, l)
					in := &Input{Bulk: bulk, Number: rng.Uint64(), Hits: randomHits(rng, n, 1+n/(2*w))}
					k.Project = sqrtColumn(n)
					if rng.IntN(3) == 0 {
						in.Projection = &Row{-4, -3, -2, -1, 0, 1, 2, 3}
						k.Record = make([]Row, n)
					}
					var out Output
					k.Batch(in, &out)
					modes[mode(k, in)]++
					k.Batch(in, &out)
					name := fmt.Sprintf("n=%d w=%d σ=%g %s %+v", n, w, sigma, kind, p)
					for lane := range Lanes {
						y := k.Outputs(in, lane)
						compare(t, name, out.LogRatio[0][lane], likelihood.LogRatio(l, c, sigma, y))
						want := 0.0
						for i, v := range k.Project {
							want += v * y[i]
						}
						compare(t, name+" projection", out.Projection[lane], want)
						if in.Projection == nil {
							continue
						}
						compare(t, name+" given projection", want, in.Projection[lane])
						compare(t, name+" record", k.Record[n/2][lane], math.Log2E/(sigma*sigma)*c.Dot(n/2, y))
						free := *in
						free.Projection = nil
						noise, along := k.Outputs(&free, lane), 0.0
						for i, v := range k.Project {
							along += v * noise[i]
						}
						last := n - 1 // across the direction y is as it was
						compare(t, name+" across", y[last]-want*k.Project[last], noise[last]-along*k.Project[last])
					}
				}
			}
		}
	}
	t.Log(modes)
	if len(modes) < 3 {
		t.Errorf("modes %v: not all were tested", modes)
	}
}

// TestPairsAgainstLogDomain does the same for owners of two examples, with n below and above b.
func TestPairsAgainstLogDomain(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 2))
	modes := map[bool]int{}
	for _, n := range []int{1, 2, 3, 9, 40} {
		for _, b := range []int{1, 2, 3, 4, 9, 31} {
			for _, sigma := range []float64{0.1, 0.5, 2} {
				for _, warm := range []bool{false, true} {
					c := likelihood.Toeplitz(n, sqrtColumn(1+rng.IntN(min(b, n))))
					if rng.IntN(3) == 0 {
						c = general(c)
					}
					p := sampling.BMinSep{Steps: n, MinSep: b, Prob: []float64{0.002, 0.1, 0.7, 1}[rng.IntN(4)], WarmStart: warm}
					table := must.Get(p.Law().Tabulate(n))(t)
					l := must.Get(likelihood.NewExamples(table, c, 1/(sigma*sigma), 2))(t)
					k := New(c, sigma, l)
					in := &Input{Bulk: testBulk(), Number: rng.Uint64(), Hits: randomHits(rng, n, 2+2*n/b)}
					var out Output
					k.Batch(in, &out)
					modes[k.recursions[0].fast != nil]++
					name := fmt.Sprintf("n=%d w=%d σ=%g %+v", n, c.Bands, sigma, p)
					for lane := range Lanes {
						compare(t, name, out.LogRatio[0][lane], likelihood.LogRatio(l, c, sigma, k.Outputs(in, lane)))
					}
				}
			}
		}
	}
	if modes[true] < 80 {
		t.Errorf("only %d pairs were in linear scale", modes[true])
	}
}

// TestForkAndOrder: batches do not depend on the ones before them, nor a fork on its kernel.
func TestForkAndOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, w := range []int{3, 64} {
		c := likelihood.Toeplitz(500, sqrtColumn(w))
		k := New(c, 0.5, ratioOf(sampling.BMinSep{Steps: 500, MinSep: w, Prob: 0.05, WarmStart: true}.Law(), c, 0.5))
		hits := randomHits(rng, 500, 10)
		var first, again, forked Output
		k.Batch(&Input{Bulk: testBulk(), Number: 7, Hits: hits}, &first)
		k.Batch(&Input{Bulk: testBulk(), Number: 8}, &again)
		if again.LogRatio[0] == first.LogRatio[0] {
			t.Error("two numbers, one result")
		}
		k.Batch(&Input{Bulk: testBulk(), Number: 7, Hits: hits}, &again)
		fork := k.Fork()
		fork.Batch(&Input{Bulk: testBulk(), Number: 7, Hits: hits}, &forked)
		if again.LogRatio[0] != first.LogRatio[0] || forked.LogRatio[0] != first.LogRatio[0] {
			t.Errorf("%v, again %v, forked %v", first.LogRatio[0], again.LogRatio[0], forked.LogRatio[0])
		}
	}
	if len(ID()) != len("fma/2-")+8 {
		t.Error(ID())
	}
}

// TestSeveralRatios: ratios together give the same as each alone.
func TestSeveralRatios(t *testing.T) {
	c := likelihood.Toeplitz(200, sqrtColumn(8))
	coins := sampling.MultiOwner{Steps: 200, MinSep: 8, Prob: 0.1}
	ratios := []likelihood.Ratio{
		ratioOf(sampling.BMinSep{Steps: 200, MinSep: 8, Prob: 0.1, WarmStart: true}.Law(), c, 1),
		ratioOf(sampling.EpochMinSep{Steps: 200, MinSep: 8, EpochSteps: 30}.Law(), c, 1),
		must.Get(likelihood.NewPublishedOwner(coins, c, 3, 1))(t),
	}
	in := &Input{Bulk: testBulk(), Hits: &[Lanes][]Hit{{{3, 2}, {30, 1}}}}
	var all, one Output
	together := New(c, 1, ratios...)
	together.Batch(in, &all)
	for i, l := range ratios {
		New(c, 1, l).Batch(in, &one)
		if one.LogRatio[0] != all.LogRatio[i] {
			t.Errorf("ratio %d: %v, alone %v", i, all.LogRatio[i], one.LogRatio[0])
		}
		for lane := range Lanes {
			compare(t, fmt.Sprint("ratio ", i), all.LogRatio[i][lane], likelihood.LogRatio(l, c, 1, together.Outputs(in, lane)))
		}
	}
}

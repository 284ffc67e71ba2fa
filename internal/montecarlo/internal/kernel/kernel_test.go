package kernel

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/stream"
	"minsep/mechanism"
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
					p := likelihood.Process{Steps: n, MinSep: w + rng.IntN(3), Prob: []float64{0.002, 0.1, 0.7, 1}[rng.IntN(4)], WarmStart: rng.IntN(2) == 0}
					l := likelihood.MinSep(p, c.SquaredNorms(1/(sigma*sigma)))
					k := New(c, sigma, l)
					in := &Input{Bulk: bulk, Number: rng.Uint64(), Hits: randomHits(rng, n, 1+n/(2*w))}
					if rng.IntN(3) == 0 {
						in.Shift = make([]float64, n)
						for i := range in.Shift {
							in.Shift[i] = 0.2 * rng.NormFloat64()
						}
					}
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

// TestOwnersAgainstLogDomain does the same for owners of two and three examples, with n below and
// above b.
func TestOwnersAgainstLogDomain(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 2))
	modes := map[bool]int{}
	for _, n := range []int{1, 2, 3, 9, 40, 193, 250} {
		for _, b := range []int{1, 2, 3, 4, 9, 31} {
			for _, sigma := range []float64{0.1, 0.5, 2} {
				for _, warm := range []bool{false, true} {
					c := likelihood.Toeplitz(n, sqrtColumn(1+rng.IntN(min(b, n))))
					if rng.IntN(3) == 0 {
						c = general(c)
					}
					p := likelihood.Process{Steps: n, MinSep: b, Prob: []float64{0.002, 0.1, 0.7, 1}[rng.IntN(4)], WarmStart: warm}
					examples := 2
					if b < 10 {
						examples += rng.IntN(2)
					}
					l := likelihood.NewOwner(p, c, examples, 1/(sigma*sigma))
					k := New(c, sigma, l)
					in := &Input{Bulk: testBulk(), Number: rng.Uint64(), Hits: randomHits(rng, n, 2+2*n/b)}
					var out Output
					k.Batch(in, &out)
					modes[k.recursions[0].fast != nil]++
					name := fmt.Sprintf("k=%d n=%d w=%d σ=%g %+v", examples, n, c.Bands, sigma, p)
					for lane := range Lanes {
						compare(t, name, out.LogRatio[0][lane], likelihood.LogRatio(l, c, sigma, k.Outputs(in, lane)))
					}
				}
			}
		}
	}
	t.Log(modes)
	if modes[true] < 150 || modes[false] == 0 {
		t.Errorf("modes %v: not all were tested", modes)
	}
}

// TestPolynomialAgainstLogDomain: the ratios with several terms.
func TestPolynomialAgainstLogDomain(t *testing.T) {
	rng := rand.New(rand.NewPCG(6, 2))
	fast := 0
	for _, n := range []int{1, 5, 192, 500} {
		for _, b := range []int{1, 4, 40} {
			for _, sigma := range []float64{0.1, 0.5, 2} {
				for _, examples := range []int{2, 3, 7} {
					c := likelihood.Toeplitz(n, sqrtColumn(min(b, n)))
					p := likelihood.Process{Steps: n, MinSep: b, Prob: []float64{1e-5, 0.01, 0.3}[rng.IntN(3)], WarmStart: rng.IntN(2) == 0}
					norms := c.SquaredNorms(1 / (sigma * sigma))
					ratios := []likelihood.Ratio{likelihood.IndependentLower(p, norms, examples), likelihood.PublishedOwner(p, norms, examples)}
					k := New(c, sigma, ratios...)
					in := &Input{Bulk: testBulk(), Number: rng.Uint64(), Hits: randomHits(rng, n, 2+2*n/b)}
					var out Output
					k.Batch(in, &out)
					for i, l := range ratios {
						if r := k.recursions[i].fast; r != nil && k.reach(in) <= r.Limit() {
							fast++
						}
						for lane := range Lanes {
							compare(t, fmt.Sprintf("ratio %d k=%d n=%d σ=%g %+v", i, examples, n, sigma, p), out.LogRatio[i][lane], likelihood.LogRatio(l, c, sigma, k.Outputs(in, lane)))
						}
					}
				}
			}
		}
	}
	if fast < 50 {
		t.Errorf("only %d in linear scale", fast)
	}
}

// TestForkAndOrder: batches do not depend on the ones before them, nor a fork on its kernel.
func TestForkAndOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, w := range []int{3, 64} {
		c := likelihood.Toeplitz(500, sqrtColumn(w))
		k := New(c, 0.5, likelihood.MinSep(likelihood.Process{Steps: 500, MinSep: w, Prob: 0.05, WarmStart: true}, c.SquaredNorms(4)))
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
	if len(ID()) != len("fma/1-")+8 {
		t.Error(ID())
	}
}

// TestSeveralRatios: ratios together give the same as each alone.
func TestSeveralRatios(t *testing.T) {
	c := likelihood.Toeplitz(200, sqrtColumn(8))
	p := likelihood.Process{Steps: 200, MinSep: 8, Prob: 0.1, WarmStart: true}
	norms := c.SquaredNorms(1)
	ratios := []likelihood.Ratio{likelihood.MinSep(p, norms), likelihood.IndependentLower(p, norms, 3), &likelihood.OwnerUpper{One: likelihood.MinSep(p, norms), Examples: 2}, likelihood.NewOwner(p, c, 2, 1)}
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

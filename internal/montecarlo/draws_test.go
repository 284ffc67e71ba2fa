package montecarlo

import (
	"fmt"
	"math"
	"testing"

	"minsep/internal/stattest"
	"minsep/internal/stream"
)

func testDraws(name string) *draws {
	d := &draws{bulk: stream.NewBulk(testKeyOf(name))}
	d.start(0, 0)
	return d
}

// binomialFault judges draws against Binom(n, p), cells of expected counts below 5 at either end
// joined.
func binomialFault(draw func() int, n int, p float64, count int) error {
	pmf := func(k int) float64 {
		all, _ := math.Lgamma(float64(n) + 1)
		in, _ := math.Lgamma(float64(k) + 1)
		out, _ := math.Lgamma(float64(n-k) + 1)
		return math.Exp(all - in - out + float64(k)*math.Log(p) + float64(n-k)*math.Log1p(-p))
	}
	sd := math.Sqrt(float64(n) * p * (1 - p))
	low, high := max(0, int(float64(n)*p-4*sd)), min(n, int(float64(n)*p+4*sd)+1)
	distribution, cells := []float64{0}, make([]int, high-low+3)
	inside := 0.0
	for k := low; k <= high; k++ {
		distribution = append(distribution, pmf(k))
		inside += pmf(k)
	}
	for k := low - 1; k >= 0 && k > low-2000; k-- {
		distribution[0] += pmf(k)
	}
	distribution = append(distribution, max(0, 1-inside-distribution[0]))
	for range count {
		cells[min(max(draw()-low+1, 0), len(cells)-1)]++
	}
	return stattest.Distribution(cells, distribution)
}

func TestBinomial(t *testing.T) {
	for i, c := range []struct {
		n int
		p float64
	}{{1, 0.3}, {7, 0.5}, {40, 0.9}, {100, 0.05}, {21, 0.5}, {300, 0.2}, {2000, 0.7}, {300000, 0.0038}, {14745599, 1.2e-4}} {
		d := testDraws(fmt.Sprint("binomial ", i))
		if err := binomialFault(func() int { return d.binomial(c.n, c.p) }, c.n, c.p, 200000); err != nil {
			t.Errorf("Binom(%d, %g): %v", c.n, c.p, err)
		}
		if c.n > 100 && binomialFault(func() int { return d.binomial(c.n+c.n/100, c.p) }, c.n, c.p, 200000) == nil {
			t.Errorf("Binom(%d, %g) was not told from Binom(%d, %g)", c.n+c.n/100, c.p, c.n, c.p)
		}
	}
	d := testDraws("certain")
	if d.binomial(9, 1) != 9 || d.binomial(0, 0.5) != 0 {
		t.Error("certain outcomes")
	}
}

// TestSampledAtLeastOne: the distribution of how many examples are sampled, given that one is.
func TestSampledAtLeastOne(t *testing.T) {
	const k, p = 4, 0.3
	process := newParticipations(Spec{Prob: p, MaxExamplesPerOwner: k})
	cells, distribution := make([]int, k+1), make([]float64, k+1)
	for j := 1; j <= k; j++ {
		distribution[j] = float64([]int{1, 4, 6, 4, 1}[j]) * math.Pow(p, float64(j)) * math.Pow(1-p, float64(k-j)) / (1 - math.Pow(1-p, k))
	}
	d := testDraws("sampled")
	for range 200000 {
		cells[process.sampled(d)]++
	}
	if err := stattest.Distribution(cells, distribution); err != nil {
		t.Error(err)
	}
	process.spec.Prob, process.logQ = 1, math.Inf(-1)
	if got := process.sampled(d); got != k {
		t.Errorf("p = 1: %d", got)
	}
}

// TestRates: after a warm start every step has the rate 1/(b-1+1/p), and the counts of the others
// have its binomial distribution; after a cold start the first step has rate p.
func TestRates(t *testing.T) {
	const n, b, p, samples = 30, 7, 0.2, 200000
	for _, warm := range []bool{true, false} {
		s := Spec{Scheme: BMinSep, Steps: n, MinSep: b, Prob: p, WarmStart: warm, MaxBatchSize: 3, Examples: 12}
		process := newParticipations(s)
		d := testDraws(fmt.Sprint("rates ", warm))
		rate := make([]int, n)
		cells := make([][]int, n)
		for i := range cells {
			cells[i] = make([]int, s.Examples)
		}
		var counts []int
		for range samples {
			for _, hit := range process.appendHits(nil, d) {
				rate[hit.Step]++
			}
			counts = process.counts(counts, d)
			for i, r := range counts {
				cells[i][r]++
			}
		}
		// The probability of participating at each step, from the renewal equation.
		at := make([]float64, n)
		for i := range at {
			free := 1.0
			if warm {
				free = (1 + float64(min(i, b-1))*p) / (1 + (b-1)*p)
			}
			for _, rate := range at[max(0, i-b+1):i] { // blocked by it
				free -= rate
			}
			at[i] = p * free
		}
		for i := range n {
			if err := stattest.Count(rate[i], samples, at[i]); err != nil {
				t.Errorf("warm %v step %d: %v", warm, i, err)
			}
			if warm && math.Abs(at[i]-1/(b-1+1/p)) > 1e-12 {
				t.Fatalf("step %d: the reference itself has rate %g", i, at[i])
			}
			distribution := make([]float64, s.Examples)
			for r := range distribution {
				choose := 1.0
				for j := range r {
					choose *= float64(s.Examples-1-j) / float64(j+1)
				}
				distribution[r] = choose * math.Pow(at[i], float64(r)) * math.Pow(1-at[i], float64(s.Examples-1-r))
			}
			if err := stattest.Distribution(cells[i], distribution); err != nil {
				t.Errorf("warm %v counts at step %d: %v", warm, i, err)
			}
		}
		if stattest.Count(rate[0], samples, 1/(b-1+1/p)*0.93) == nil {
			t.Error("a rate 7 % off was accepted")
		}
	}
}

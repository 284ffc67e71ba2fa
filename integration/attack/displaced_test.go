package attack

import (
	"math"
	"math/bits"
	"runtime"
	"sort"
	"sync"
	"testing"

	"gonum.org/v1/gonum/stat"
	"gonum.org/v1/gonum/stat/combin"

	"minsep/internal/must"
	"minsep/sampling"
)

// Where batches have a maximum size an owner who is sampled displaces somebody else from a full
// batch, also where their own gradients are 0, and the adversary knows whose gradient is missing.
// So the adversary knows how many others were sampled at each step and what gradients they have,
// all the same one here, and decides by the likelihood ratio of P, with the owner's gradients, and
// Q, with zeros in their place: both relative to the batches of the others alone.

// displaced is that likelihood ratio, by all participation patterns. Columns of two participations
// at different steps must not overlap.
type displaced struct {
	columns   [][]float64
	sigma     float64
	neighbour float64 // gradient of each of the others
	patterns  []pattern
	kept      [][][]share // by others sampled and own examples sampled: how many of them may stay

	p, q [][]float64 // factors by step and number of own examples sampled
}

// share is a number of own examples that stay in a batch, and of others that they displace.
type share struct{ prob, stay, displaced float64 }

func newDisplaced(t testing.TB, c chain) *displaced {
	t.Helper()
	proc := must.Get(newProcess(c.spec))(t)
	k, most := max(1, c.examples), c.others+max(1, c.examples)
	if c.spec.Truncation != nil {
		most = c.spec.Truncation.MaxBatchSize
	}
	if c.cut > 0 {
		most = c.cut
	}
	d := &displaced{columns: matrix(c.strategy), sigma: c.sigma, neighbour: c.neighbour, patterns: proc.patterns(k, maxPatterns)}
	if wide := bands(d.columns); d.patterns == nil || wide > 1 && (k > 1 || wide > c.spec.Scheme().Separation()) {
		t.Fatal("columns overlap")
	}
	for others := range c.others + 1 {
		d.kept = append(d.kept, nil)
		for own := range k + 1 {
			d.kept[others] = append(d.kept[others], shares(others, own, most))
		}
	}
	for range d.columns {
		d.p, d.q = append(d.p, make([]float64, k+1)), append(d.q, make([]float64, k+1))
	}
	return d
}

// shares are the numbers of own examples that a uniformly random subset of most entries holds.
func shares(others, own, most int) (all []share) {
	size := min(most, others+own)
	for stay := max(0, size-others); stay <= min(own, size); stay++ {
		prob := float64(combin.Binomial(own, stay)) * float64(combin.Binomial(others, size-stay)) / float64(combin.Binomial(others+own, size))
		all = append(all, share{prob, float64(stay), float64(min(others, most) - (size - stay))})
	}
	return all
}

// log is ln P(y)/Q(y) of y = C (sums), where so many others were sampled.
func (d *displaced) log(y []float64, sampled []int) float64 {
	for t, c := range d.columns {
		dot, square := inner(c, y[t:]), inner(c, c)
		density := func(mean float64) float64 {
			return math.Exp((mean*dot - mean*mean*square/2) / (d.sigma * d.sigma))
		}
		for own := range d.p[t] {
			d.p[t][own], d.q[t][own] = 0, 0
			for _, s := range d.kept[sampled[t]][own] {
				d.p[t][own] += s.prob * density(s.stay-s.displaced*d.neighbour)
				d.q[t][own] += s.prob * density(-s.displaced*d.neighbour)
			}
		}
	}
	p, q := 0.0, 0.0
	for _, x := range d.patterns {
		a, b := x.prob, x.prob
		for t, own := range x.times {
			if own > 0 {
				a *= d.p[t][own]
				b *= d.q[t][own]
			}
		}
		p += a
		q += b
	}
	return math.Log(p / q)
}

// logs are the log likelihood ratios of the adversary, with the canary and without, of so many
// trainings each.
func (c chain) logs(t testing.TB, seed string, trainings int) (logs [2][]float64) {
	t.Helper()
	workers := runtime.GOMAXPROCS(0)
	parts := make([][2][]float64, workers)
	var group sync.WaitGroup
	for w := range workers {
		group.Go(func() {
			x, d := c.trainer(t, seeded(seed)), newDisplaced(t, c)
			for run := w; run < 2*trainings; run += workers {
				side := run / workers % 2
				row := x.train(uint64(run), func(int) bool { return side == 0 })[0]
				parts[w][side] = append(parts[w][side], d.log(multiply(d.columns, row), x.sampled))
			}
		})
	}
	group.Wait()
	for _, p := range parts {
		for side := range logs {
			logs[side] = append(logs[side], p[side]...)
		}
	}
	return logs
}

// crowded is a chain of 64 examples, in batches of 1.2 on average: the canary's owner has some, and
// the others -1 in the canary's coordinate, so that whoever is displaced makes the owner's gradient
// look twice as large.
func crowded(examples int) chain {
	c := chain{spec: bMinSep(0.02, 16, 4, true), strategy: toeplitz(16, 0.8, 0.6), canaries: 1, others: 64 - examples, neighbour: -1}
	if examples > 1 {
		c.spec, c.strategy, c.examples = bMinSep(0.02, 8, 3, true), toeplitz(8, 1), examples
	}
	return c
}

// unaccounted is a chain whose noise multiplier, certified for whole batches, takes no account of
// their being cut to one.
func unaccounted() chain {
	c := crowded(1)
	c.sigma, c.cut = 0.5809, 1
	return c
}

// TestDisplaced: to an adversary who knows whom an owner displaces, truncated batches stay within
// their certificate, and exceed one that does not account for truncation.
func TestDisplaced(t *testing.T) {
	one, two, fault := crowded(1), crowded(2), unaccounted()
	one.spec.Truncation, one.sigma = &sampling.Truncation{MaxBatchSize: 4}, 0.6307
	two.spec.Truncation, two.sigma = &sampling.Truncation{MaxBatchSize: 8}, 0.66
	for _, c := range []struct {
		name string
		chain
		exceeds bool
	}{{"one example", one, false}, {"an owner of two", two, false}, {"not accounted for", fault, true}} {
		t.Run(c.name, func(t *testing.T) {
			trainings, start := 12_000, processorTime()
			switch {
			case long() && c.exceeds:
				trainings = powerful
			case long():
				c.sigma, trainings = c.certified(t, 200_000), 500_000
			}
			logs := c.logs(t, c.name, trainings)
			b := NewBound(logs[0], logs[1], epsilon, delta)
			c.report(t, b, 0, len(logs[0])+len(logs[1]), processorTime()-start)
			if got := b.Epsilon > epsilon; got != (c.exceeds && long()) {
				t.Errorf("ε is at least %.3f, and %d is claimed", b.Epsilon, epsilon)
			}
			if d := b.With; c.exceeds && d.Estimate-5*d.StandardError < delta {
				t.Errorf("δ is about %.5f ± %.5f, no more than 0.01", d.Estimate, d.StandardError)
			}
			for side, d := range []Direction{b.With, b.Without} {
				if d.Estimate-6*d.StandardError > delta && !c.exceeds {
					t.Errorf("δ is about %.5f ± %.5f, and 0.01 is certified", d.Estimate, d.StandardError)
				}
				// The ratio is the true one: under the one distribution its mean is 1.
				var inverse []float64
				for _, v := range logs[side] {
					inverse = append(inverse, math.Exp(v*float64(2*side-1)))
				}
				mean, deviation := stat.MeanStdDev(inverse, nil)
				if err := deviation / math.Sqrt(float64(len(inverse))); math.Abs(mean-1) > 6*err {
					t.Errorf("the mean of the likelihood ratio is %v ± %v", mean, err)
				}
			}
		})
	}
}

// powerful is the number of trainings, with the canary and without, for which
// TestPowerOfDisplaced shows that the missing account of truncation exceeds the certificate.
const powerful = 120_000

// TestPowerOfDisplaced: an audit by the adversary who knows whom an owner displaces misses
// truncation that is not accounted for in fewer than one of a thousand. Fresh trainings bound how
// often the test says "took part" with the canary and without, and exact tails of the binomial
// distribution bound the probability that ε exceeds by the two counts.
func TestPowerOfDisplaced(t *testing.T) {
	if !long() {
		t.Skip("takes minutes: make attack")
	}
	const measured = 320_000
	logs := unaccounted().logs(t, "power of displaced", measured)
	r := newRates(logs[0], logs[1], func(log float64) bool { return log > epsilon }).bounded(unsure)
	best := 0.0
	for _, over := range []float64{3, 3.5, 4, 4.5} { // deviations that are allowed for
		most := int(powerful*r.falseTop + over*math.Sqrt(powerful*r.falseTop))
		least := sort.Search(powerful, func(k int) bool {
			return Rates{True: k, Of: powerful, False: most, FalseOf: powerful}.bounded(FalseAlarm/8).epsilon(delta) > epsilon
		})
		best = max(best, tail(powerful, least, r.trueLow)*(1-tail(powerful, most+1, r.falseTop)))
	}
	t.Logf("%d trainings; %.4f with the canary, %.4f without (at most); power at least %.6f", 2*powerful, r.trueLow, r.falseTop, best)
	if best < 0.999 {
		t.Errorf("power at least %v", best)
	}
}

// TestShares holds the numbers of own examples that stay against all subsets.
func TestShares(t *testing.T) {
	for _, c := range [][3]int{{3, 2, 2}, {2, 3, 4}, {0, 2, 1}, {4, 1, 4}, {2, 1, 5}, {3, 0, 2}} {
		others, own, most := c[0], c[1], c[2]
		counts, subsets := map[float64]float64{}, 0.0
		for set := range 1 << (others + own) {
			if bits.OnesCount(uint(set)) == min(most, others+own) {
				counts[float64(bits.OnesCount(uint(set)>>others))]++
				subsets++
			}
		}
		for _, s := range shares(others, own, most) {
			left := float64(min(most, others+own)) - s.stay
			if want := counts[s.stay] / subsets; math.Abs(s.prob-want) > 1e-12 || s.displaced != float64(min(others, most))-left {
				t.Errorf("%v: %+v, want probability %v", c, s, want)
			}
			delete(counts, s.stay)
		}
		if len(counts) > 0 {
			t.Errorf("%v: %v are missing", c, counts)
		}
	}
}

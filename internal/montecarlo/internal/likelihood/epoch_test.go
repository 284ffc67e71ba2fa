package likelihood

import (
	"fmt"
	"math"
	"math/rand/v2"
	"testing"

	"minsep/internal/montecarlo/internal/law"
)

// epochs is a run of epoch min-sep.
type epochs struct{ Steps, MinSep, Epoch int }

func (e epochs) law() law.Epochs { return law.NewEpochs(e.Steps, e.MinSep, e.Epoch) }

// epochPatterns enumerates F3.8 by places: in each epoch an example that is free from place v on
// takes the place u ≥ v with the probability that the hazards give, and the first epoch begins
// after one that nobody sees, with a uniform place in it.
func epochPatterns(e epochs) []pattern {
	var out []pattern
	var walk func(epoch, last int, x []float64, prob float64) // last: place in the epoch before
	walk = func(epoch, last int, x []float64, prob float64) {
		if epoch*e.Epoch >= e.Steps {
			out = append(out, pattern{append([]float64(nil), x...), prob})
			return
		}
		left := 1.0
		for v := max(0, last+e.MinSep-e.Epoch); v < e.Epoch && left > 1e-15; v++ {
			h := 1 / float64(e.Epoch-e.MinSep+1)
			if v >= e.MinSep-1 {
				h = 1 / float64(e.Epoch-v)
			}
			if i := epoch*e.Epoch + v; i < e.Steps {
				x[i] = 1
				walk(epoch+1, v, x, prob*left*h)
				x[i] = 0
			} else {
				walk(epoch+1, v, x, prob*left*h)
			}
			left *= 1 - h
		}
	}
	for last := range e.Epoch {
		walk(0, last, make([]float64, e.Steps), 1/float64(e.Epoch))
	}
	return out
}

// eachEpoch runs over sizes, among them epochs of one step, of min-sep steps, and longer than the
// run.
func eachEpoch(seed uint64, steps int, f func(name string, e epochs, c *Columns, sigma float64, rng *rand.Rand)) {
	rng := rand.New(rand.NewPCG(seed, 1))
	for _, n := range []int{1, 2, steps - 1, steps} {
		for _, b := range []int{1, 2, 3, 4} {
			for _, more := range []int{0, 1, 2, b, steps - b, steps + 3 - b} {
				if more < 0 {
					continue
				}
				e := epochs{Steps: n, MinSep: b, Epoch: b + more}
				c := randomColumns(rng, n, min(b, n), rng.IntN(3))
				sigma := []float64{0.1, 0.7, 3}[rng.IntN(3)]
				f(fmt.Sprintf("%+v w=%d σ=%g", e, c.Bands, sigma), e, c, sigma, rng)
			}
		}
	}
}

func TestEpochMinSepByEnumeration(t *testing.T) {
	eachEpoch(41, 9, func(name string, e epochs, c *Columns, sigma float64, rng *rand.Rand) {
		patterns := epochPatterns(e)
		ratio := NewChain(e.law(), c.SquaredNorms(1/(sigma*sigma)))
		for range 3 {
			y := randomOutput(rng, c, sigma, patterns)
			equal(t, name, LogRatio(ratio, c, sigma, y), enumerated(c, sigma, patterns, y))
		}
	})
}

// TestEpochPairByEnumeration: all pairs of patterns.
func TestEpochPairByEnumeration(t *testing.T) {
	eachEpoch(43, 6, func(name string, e epochs, c *Columns, sigma float64, rng *rand.Rand) {
		single := epochPatterns(e)
		patterns := together(single, single)
		ratio := NewEpochPair(e.MinSep, e.Epoch, c, 1/(sigma*sigma))
		for range 2 {
			y := randomOutput(rng, c, sigma, patterns)
			equal(t, name, LogRatio(ratio, c, sigma, y), enumerated(c, sigma, patterns, y))
		}
	})
}

// TestEpochFaultsShow plants faults in the recursion and sees the enumeration reject each: hazards
// off by one step, an epoch off by one, no gap where epochs meet, and the start of an example that
// is free at once.
func TestEpochFaultsShow(t *testing.T) {
	const sigma = 0.7
	e := epochs{Steps: 9, MinSep: 3, Epoch: 4}
	rng := rand.New(rand.NewPCG(42, 1))
	c := randomColumns(rng, 9, 3, 0)
	norms := c.SquaredNorms(1 / (sigma * sigma))
	patterns := epochPatterns(e)
	y := randomOutput(rng, c, sigma, patterns)
	want := enumerated(c, sigma, patterns, y)
	for name, fault := range map[string]law.Law{
		"hazards off by one step": late{e.law()},
		"an epoch off by one":     law.NewEpochs(9, 3, 5),
		"no gap":                  law.NewEpochs(9, 1, 4),
		"free at once":            atOnce{e.law()},
	} {
		if got := LogRatio(NewChain(fault, norms), c, sigma, y); math.Abs(got-want) < 1e-3 {
			t.Errorf("%s: %g is taken for %g", name, got, want)
		}
	}
}

// late has the hazard of the next step, atOnce no wait at the start.
type (
	late   struct{ law.Epochs }
	atOnce struct{ law.Epochs }
)

func (l late) Hazard(label, step int) float64 { return l.Epochs.Hazard(label, step+1) }

func (l atOnce) Starts() ([]law.Start, bool) { return []law.Start{{Prob: 1}}, false }

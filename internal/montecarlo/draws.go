package montecarlo

import (
	"math"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/stream"
	"minsep/sampling"
)

// draws gives the uniform numbers of one sample in order, from its lane of its batch.
type draws struct {
	bulk   *stream.Bulk
	number uint64 // batch
	block  uint64
	words  [64]uint64
	next   int
}

// start goes to the first number of a lane.
func (d *draws) start(batch uint64, lane int) {
	d.number, d.block, d.next = batch, kernel.FirstFreeBlock+uint64(lane)<<32, len(d.words)
}

// Uint64 is the next word.
func (d *draws) Uint64() uint64 {
	if d.next == len(d.words) {
		d.bulk.Words(d.words[:], d.number, d.block)
		d.block += uint64(len(d.words) / 2)
		d.next = 0
	}
	d.next++
	return d.words[d.next-1]
}

// uniform is in (0, 1), an odd multiple of 2^-54.
func (d *draws) uniform() float64 {
	return (float64(d.Uint64()>>11) + 0.5) * (1.0 / (1 << 53))
}

// failures draws the number of trials, of success probability p, that fail before the first
// success, at most limit. logQ is ln(1-p).
func (d *draws) failures(logQ float64, limit int) int {
	if math.IsInf(logQ, -1) {
		return 0
	}
	if g := math.Log(d.uniform()) / logQ; g < float64(limit) {
		return int(g)
	}
	return limit
}

// coins draws the participations of an owner of a number of examples in Algorithm 3.
type coins struct {
	sampling.MultiOwner
	published bool
	examples  int
	logQ      float64 // ln(1-p)
}

// draw appends the participations. In the published distribution (F4.1) a participation blocks the
// owner for b-1 steps. Otherwise (F4.4) every step at which an example is sampled does, and the coins
// begin b-1 steps before the first step.
func (c coins) draw(dst []kernel.Hit, d *draws) []kernel.Hit {
	i, free := 1-c.MinSep, 1-c.MinSep
	if c.published {
		i, free = 0, 0
	}
	for ; ; i++ {
		i += d.failures(float64(c.examples)*c.logQ, c.Steps+c.MinSep)
		if i >= c.Steps {
			return dst
		}
		if i >= free && i >= 0 {
			dst = append(dst, kernel.Hit{Step: i, Times: c.sampled(d)})
		}
		if i >= free || !c.published {
			free = i + c.MinSep
		}
	}
}

// sampled draws from Binom(k, p) given that it is at least 1: the first example that is sampled, and
// a coin for each one after it.
func (c coins) sampled(d *draws) int {
	if math.IsInf(c.logQ, -1) {
		return c.examples
	}
	some := -math.Expm1(float64(c.examples) * c.logQ)
	first := int(math.Log1p(-d.uniform()*some) / c.logQ)
	times := 1
	for range c.examples - 1 - first {
		if d.uniform() < c.Prob {
			times++
		}
	}
	return times
}

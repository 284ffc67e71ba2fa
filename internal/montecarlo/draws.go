package montecarlo

import (
	"math"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/sampling"
)

// failures draws the number of trials, of success probability p, that fail before the first
// success, at most limit. logQ is ln(1-p).
func failures(u *kernel.Uniforms, logQ float64, limit int) int {
	if math.IsInf(logQ, -1) {
		return 0
	}
	if g := math.Log(u.Float64()) / logQ; g < float64(limit) {
		return int(g)
	}
	return limit
}

// coins draws the participations of an owner of a number of examples in the published distribution of
// Algorithm 3 (F4.1).
type coins struct {
	sampling.MultiOwner
	examples int
	logQ     float64 // ln(1-p)
}

// draw appends the participations, each of which blocks the owner for b-1 steps.
func (c coins) draw(dst []kernel.Hit, u *kernel.Uniforms) []kernel.Hit {
	for i := 0; ; i += c.MinSep {
		if i += failures(u, float64(c.examples)*c.logQ, c.Steps); i >= c.Steps {
			return dst
		}
		dst = append(dst, kernel.Hit{Step: i, Times: c.sampled(u)})
	}
}

// sampled draws from Binom(k, p) given that it is at least 1: the first example that is sampled, and
// a coin for each one after it.
func (c coins) sampled(u *kernel.Uniforms) int {
	if math.IsInf(c.logQ, -1) {
		return c.examples
	}
	some := -math.Expm1(float64(c.examples) * c.logQ)
	first := int(math.Log1p(-u.Float64()*some) / c.logQ)
	times := 1
	for range c.examples - 1 - first {
		if u.Float64() < c.Prob {
			times++
		}
	}
	return times
}

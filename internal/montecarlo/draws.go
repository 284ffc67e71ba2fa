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
func (c coins) draw(dst []kernel.Hit, u *kernel.Uniforms) []kernel.Hit {
	i, free := 1-c.MinSep, 1-c.MinSep
	if c.published {
		i, free = 0, 0
	}
	for ; ; i++ {
		i += failures(u, float64(c.examples)*c.logQ, c.Steps+c.MinSep)
		if i >= c.Steps {
			return dst
		}
		if i >= free && i >= 0 {
			dst = append(dst, kernel.Hit{Step: i, Times: c.sampled(u)})
		}
		if i >= free || !c.published {
			free = i + c.MinSep
		}
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

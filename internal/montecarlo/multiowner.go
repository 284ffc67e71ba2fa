package montecarlo

import (
	"math"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/param"
)

// MultiOwner is Algorithm 3 of arXiv 2602.09338: never certified.
const MultiOwner = "multi-owner"

func init() { schemes[MultiOwner] = multiOwner{} }

// multiOwner has the published losses (F4.1) and the losses of one owner's examples alone
// (F4.4).
type multiOwner struct{}

func (multiOwner) check(s Spec, c *param.Checker) {
	c.Probability("probability", s.Prob)
	checkUntruncated(s, c)
	c.Require(!s.Published || !s.WarmStart, "warm start", s.WarmStart, "must be false for the published distribution of Algorithm 3")
}

func (multiOwner) bands(s Spec) bandLimit { return s.atMostMinSep(s.Scheme) }

func (multiOwner) exactness(Spec, int) Exactness { return NotProven }

func (multiOwner) ratio(s Spec, _ Direction, c *likelihood.Columns) likelihood.Ratio {
	p, k := s.process(), s.ExamplesPerOwner()
	norms := s.norms(c)
	if s.Published {
		return likelihood.PublishedOwner(p, norms, k)
	}
	return &likelihood.SampledOwner{Process: p, Examples: k, Norms: norms}
}

// draw appends the participations of an owner in Algorithm 3. In the published distribution (F4.1)
// a participation blocks the owner for b-1 steps. Otherwise (F4.4) every step at which one of its
// examples is sampled does.
func (multiOwner) draw(p participations, dst []kernel.Hit, d *draws) []kernel.Hit {
	n, b, k := p.spec.Steps, p.spec.MinSep, p.spec.ExamplesPerOwner()
	logNone := float64(k) * p.logQ
	i, free := 0, 0
	if p.spec.WarmStart {
		i, free = 1-b, 1-b // the coins of b-1 steps before the first
	}
	for ; ; i++ {
		i += d.failures(logNone, n+b)
		if i >= n {
			return dst
		}
		if i >= free && i >= 0 {
			dst = append(dst, kernel.Hit{Step: i, Times: p.sampled(d)})
		}
		if i >= free || !p.spec.Published {
			free = i + b
		}
	}
}

// sampled draws from Binom(k, p) given that it is at least 1.
func (p participations) sampled(d *draws) int {
	k := p.spec.ExamplesPerOwner()
	if math.IsInf(p.logQ, -1) {
		return k
	}
	some := -math.Expm1(float64(k) * p.logQ)
	first := int(math.Log1p(-d.uniform()*some) / p.logQ) // the first sampled example, given that there is one
	return 1 + d.binomial(max(0, k-1-first), p.spec.Prob)
}

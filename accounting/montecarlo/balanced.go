package montecarlo

import (
	"fmt"

	"minsep/accounting/montecarlo/internal/kernel"
	"minsep/accounting/montecarlo/internal/likelihood"
	"minsep/internal/param"
	"minsep/sampling/balanced"
)

// BalancedMinSep lets each example take part Participations times in the run, with hazards that
// package balanced solves for.
const BalancedMinSep = "balanced-min-sep"

func init() { schemes[BalancedMinSep] = balancedMinSep{} }

// balancedMinSep has, for a strategy of at most min-sep bands, exact losses of one example (F3.9),
// and bounds for more (F4.3, F4.6).
type balancedMinSep struct{}

func (balancedMinSep) check(s Spec, c *param.Checker) {
	c.Require(s.Prob == 0, "probability", s.Prob, "must be 0 for balanced-min-sep: an example takes part a fixed number of times")
	checkUntruncated(s, c)
	if s.Steps < 1 || s.Steps > maxSteps || s.MinSep < 1 || s.MinSep > maxSteps {
		return // has been reported
	}
	l, err := balanced.New(s.Steps, s.MinSep, s.Participations)
	if err != nil {
		c.Add(err)
		return
	}
	c.Require(s.Hazards == l.Digest(), "hazards", s.Hazards, fmt.Sprintf("must be the digest of those that are solved for: %s", l.Digest()))
}

func (balancedMinSep) bands(s Spec) bandLimit { return s.atMostMinSep(s.Scheme) }

func (balancedMinSep) exactness(s Spec, _ int) Exactness {
	if s.examplesPerOwner() > 1 {
		return Bound
	}
	return Exact
}

func (balancedMinSep) ratio(s Spec, d Direction, c *likelihood.Columns) likelihood.Ratio {
	norms, factor := s.norms(c)
	one := likelihood.NewClasses(s.Balanced(), norms)
	switch k := s.examplesPerOwner(); {
	case k == 1:
		return one
	case d == P:
		return &likelihood.OwnerUpper{One: one, Examples: k}
	default:
		return likelihood.NewOwnerLower(likelihood.NewClassPosterior(s.Balanced(), norms), k, c, factor)
	}
}

// Balanced is the participation process of a valid Spec of balanced-min-sep.
func (s Spec) Balanced() *balanced.Distribution {
	l, err := balanced.New(s.Steps, s.MinSep, s.Participations)
	if err != nil {
		panic(err)
	}
	return l
}

func (balancedMinSep) draw(p participations, dst []kernel.Hit, d *draws) []kernel.Hit {
	return p.each(dst, func(dst []kernel.Hit) []kernel.Hit { return p.classes(dst, d) })
}

// classes appends the participations of one example (F3.9).
func (p participations) classes(dst []kernel.Hit, d *draws) []kernel.Hit {
	step := 0
	for left := p.distribution.First(d.word()); left > 0; left-- {
		step = p.distribution.Next(left, step, d.word())
		dst = append(dst, kernel.Hit{Step: step, Times: 1})
		step += p.spec.MinSep
	}
	return dst
}

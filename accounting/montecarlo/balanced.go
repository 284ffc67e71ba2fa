package montecarlo

import (
	"fmt"

	"minsep/accounting/montecarlo/internal/kernel"
	"minsep/accounting/montecarlo/internal/law"
	"minsep/internal/param"
	"minsep/sampling/balanced"
)

// BalancedMinSep lets each example take part Participations times in the run, with hazards that
// package balanced solves for.
const BalancedMinSep = "balanced-min-sep"

func init() { schemes[BalancedMinSep] = balancedMinSep{lawful{balancedLaw}} }

// balancedMinSep has losses by its law (F3.9).
type balancedMinSep struct{ lawful }

func balancedLaw(s Spec) law.Law { return law.Balanced{Distribution: s.Balanced()} }

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
	c.Require(s.Hazards == l.Digest(), "hazards", s.Hazards, fmt.Sprintf("must be the digest of the solved hazards, %s", l.Digest()))
}

// Balanced is the participation process of a valid Spec of balanced-min-sep.
func (s Spec) Balanced() *balanced.Distribution {
	l, err := balanced.New(s.Steps, s.MinSep, s.Participations)
	if err != nil {
		panic(err)
	}
	return l
}

// draw appends the participations of one example (F3.9).
func (balancedMinSep) draw(p participations, dst []kernel.Hit, d *draws) []kernel.Hit {
	l, step := p.law.(law.Balanced), 0
	for left := l.First(d.word()); left > 0; left-- {
		step = l.Next(left, step, d.word())
		dst = append(dst, kernel.Hit{Step: step, Times: 1})
		step += p.spec.MinSep
	}
	return dst
}

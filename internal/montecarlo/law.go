package montecarlo

import (
	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/param"
)

// Law is any law of one example, as a table.
const Law = "law"

func init() { schemes[Law] = lawScheme{} }

// lawScheme has exact losses for any strategy (F3.13), and draws, by the table of a Spec.
type lawScheme struct{}

func (lawScheme) check(s Spec, c *param.Checker) {
	c.Require(s.Prob == 0 && !s.WarmStart, "probability", s.Prob, "must be 0 for a law, which has its own")
	checkOneExample(s, c)
	if s.LawTable == nil {
		c.Require(false, "law", "nil", "is needed")
		return
	}
	if err := s.LawTable.Validate(); err != nil {
		c.Add(err)
		return
	}
	c.Require(s.LawTable.Steps == s.Steps, "steps of the law", s.LawTable.Steps, "must be those of the run")
	c.Require(s.LawTable.Separation() == s.MinSep, "min-sep", s.MinSep, "must be the separation of the law")
	if s.Strategy != nil && s.Strategy.Steps == s.Steps {
		if err := likelihood.CheckTable(s.LawTable, s.Strategy.Bands()); err != nil {
			c.Require(false, "bands", s.Strategy.Bands(), "must be fewer for this law: "+err.Error())
		}
	}
}

func (lawScheme) bands(Spec) bandLimit { return bandLimit{} }

func (lawScheme) exactness(Spec, int) Exactness { return Exact }

func (lawScheme) ratio(s Spec, _ Direction, c *likelihood.Columns) likelihood.Ratio {
	return likelihood.NewPoints(s.LawTable, c, s.Factor())
}

func (lawScheme) draw(p participations, dst []kernel.Hit, d *draws) []kernel.Hit {
	var buffer [64]int32
	for _, step := range p.process.Draw(buffer[:0], d) {
		dst = append(dst, kernel.Hit{Step: int(step), Times: 1})
	}
	return dst
}

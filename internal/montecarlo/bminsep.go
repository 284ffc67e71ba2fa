package montecarlo

import (
	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/law"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/param"
)

// BMinSep is b-min-sep subsampling of each example on its own, and Poisson the same with min-sep 1.
const (
	BMinSep = "b-min-sep"
	Poisson = "poisson"
)

func init() {
	schemes[BMinSep] = bMinSep{}
	schemes[Poisson] = poisson{}
}

// Limits of the exact distribution of several examples per owner: its cost a step is proportional
// to the states, its memory to the states times min-sep.
const (
	maxOwnerStates = 600 // of three and more
	maxOwnerMemory = 1 << 19
)

// bMinSep has exact losses (F3.2, F3.6, F4.2) and bounds (F3.3, F3.7, F4.3, F4.5).
type bMinSep struct{}

func (bMinSep) check(s Spec, c *param.Checker) { c.Probability("probability", s.Prob) }

func (bMinSep) bands(s Spec) bandLimit {
	switch {
	case s.ExamplesPerOwner() > 1:
		return s.atMostMinSep("several examples per owner")
	case s.MaxBatchSize > 0:
		return s.atMostMinSep("truncated batches")
	}
	return bandLimit{}
}

func (bMinSep) exactness(s Spec, bands int) Exactness {
	switch {
	case bands > s.MinSep:
		return Bound
	case s.ExamplesPerOwner() == 1:
		return Exact
	}
	states := likelihood.OwnerStates(s.MinSep, s.ExamplesPerOwner())
	if states*s.MinSep > maxOwnerMemory || s.ExamplesPerOwner() > 2 && states > maxOwnerStates {
		return Bound
	}
	return Exact
}

func (b bMinSep) ratio(s Spec, d Direction, c *likelihood.Columns) likelihood.Ratio {
	p, k := s.process(), s.ExamplesPerOwner()
	norms := s.norms(c)
	bound := b.exactness(s, c.Bands) == Bound
	switch {
	case s.MaxBatchSize > 0:
		return &likelihood.Truncated{Process: p, MaxBatch: s.MaxBatchSize, Norms: norms}
	case k > 1 && !bound:
		return likelihood.NewOwner(p, c, k, s.Factor())
	case k > 1 && d == P:
		return &likelihood.OwnerUpper{One: likelihood.MinSep(p, norms), Examples: k}
	case k > 1:
		return likelihood.IndependentLower(p, norms, k)
	case bound && d == Q:
		return likelihood.MinSepLower(p, c, s.Factor())
	}
	return likelihood.MinSep(p, norms)
}

func (bMinSep) law(s Spec) law.Law { return law.NewMinSep(s.MinSep, s.Prob, s.WarmStart) }

// wait draws how many steps pass before an example is available.
func (p participations) wait(d *draws) int {
	if !p.spec.WarmStart || p.spec.MinSep == 1 {
		return 0
	}
	if d.uniform()*(1+float64(p.spec.MinSep-1)*p.spec.Prob) < 1 {
		return 0
	}
	return 1 + d.below(p.spec.MinSep-1)
}

// draw appends the participations of one example (arXiv 2602.09338, Algorithms 1 and 2).
func (bMinSep) draw(p participations, dst []kernel.Hit, d *draws) []kernel.Hit {
	n := p.spec.Steps
	for i := p.wait(d); ; i += p.spec.MinSep {
		i += d.failures(p.logQ, n)
		if i >= n {
			return dst
		}
		dst = append(dst, kernel.Hit{Step: i, Times: 1})
	}
}

// poisson is bMinSep with min-sep 1.
type poisson struct{ bMinSep }

func (poisson) check(s Spec, c *param.Checker) {
	c.Require(s.MinSep == 1, "min-sep", s.MinSep, "must be 1 for Poisson sampling")
	c.Probability("probability", s.Prob)
}

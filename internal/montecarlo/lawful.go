package montecarlo

import (
	"sort"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/law"
	"minsep/internal/montecarlo/internal/likelihood"
)

// lawful is all that follows from a law of one example, for strategies of at most min-sep bands:
// exact losses of one example, and bounds for several, each in a process of its own (F4.3, F4.6). A
// scheme is a lawful with a check of its parameters.
type lawful struct {
	of func(s Spec) law.Law
}

// Law is the law of one example of a valid Spec, or nil where its scheme has none.
func (s Spec) Law() law.Law {
	if l, ok := schemes[s.Scheme].(interface{ law(s Spec) law.Law }); ok {
		return l.law(s)
	}
	return nil
}

func (l lawful) law(s Spec) law.Law { return l.of(s) }

func (lawful) bands(s Spec) bandLimit { return s.atMostMinSep(s.Scheme) }

func (lawful) exactness(s Spec, _ int) Exactness {
	if s.ExamplesPerOwner() > 1 {
		return Bound
	}
	return Exact
}

func (l lawful) ratio(s Spec, d Direction, c *likelihood.Columns) likelihood.Ratio {
	norms := s.norms(c)
	switch k := s.ExamplesPerOwner(); {
	case k == 1:
		return likelihood.NewChain(l.of(s), norms)
	case d == P:
		return &likelihood.OwnerUpper{One: likelihood.NewChain(l.of(s), norms), Examples: k}
	default:
		return likelihood.NewOwnerLower(likelihood.NewChainPosterior(l.of(s), norms), k, c, s.Factor())
	}
}

// draw appends the participations of one example. One uniform number for each gives the number of
// steps without a participation before it.
func (lawful) draw(p participations, dst []kernel.Hit, d *draws) []kernel.Hit {
	label := p.starts[0].Label
	if p.drawn {
		u := d.uniform()
		for _, s := range p.starts {
			label = s.Label
			if u -= s.Prob; u < 0 {
				break
			}
		}
	}
	for step := 0; ; step++ {
		at := p.law.FreeAt(label, step)
		if at >= p.spec.Steps {
			return dst
		}
		label = p.law.Pass(label, step, at)
		u := d.uniform()
		step = at + sort.Search(p.spec.Steps-at, func(k int) bool { return p.law.Quiet(label, at, at+k+1) < u })
		if step == p.spec.Steps {
			return dst
		}
		dst = append(dst, kernel.Hit{Step: step, Times: 1})
		kind, _ := p.law.Kind(step + 1)
		label = p.law.Enter(label, kind, true)
	}
}

package montecarlo

import (
	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/param"
)

// CyclicPoisson is Poisson subsampling of min-sep parts in turn.
const CyclicPoisson = "cyclic-poisson"

func init() { schemes[CyclicPoisson] = cyclicPoisson{} }

// cyclicPoisson has exact losses for a strategy of at most min-sep bands (F3.5).
type cyclicPoisson struct{}

func (cyclicPoisson) check(s Spec, c *param.Checker) {
	c.Probability("probability", s.Prob)
	checkOneExample(s, c)
}

func (cyclicPoisson) bands(s Spec) bandLimit { return s.atMostMinSep(s.Scheme) }

func (cyclicPoisson) exactness(Spec, int) Exactness { return Exact }

func (cyclicPoisson) ratio(s Spec, _ Direction, c *likelihood.Columns) likelihood.Ratio {
	return likelihood.NewCyclic(s.process(), s.norms(c))
}

func (cyclicPoisson) draw(p participations, dst []kernel.Hit, d *draws) []kernel.Hit {
	n, b := p.spec.Steps, p.spec.MinSep
	part := 0
	if p.spec.WarmStart {
		part = d.below(b)
	}
	for turn := 0; ; turn++ {
		turn += d.failures(p.logQ, n)
		if part+turn*b >= n {
			return dst
		}
		dst = append(dst, kernel.Hit{Step: part + turn*b, Times: 1})
	}
}

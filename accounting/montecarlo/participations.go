package montecarlo

import (
	"cmp"
	"math"
	"slices"

	"minsep/accounting/montecarlo/internal/kernel"
	"minsep/accounting/montecarlo/internal/law"
)

// participations draws when one owner's examples participate.
type participations struct {
	spec Spec
	logQ float64 // ln(1-p)
}

func newParticipations(s Spec) participations { return participations{s, math.Log1p(-s.Prob)} }

// appendHits appends the participations of one sample to dst, sorted by step.
func (p participations) appendHits(dst []kernel.Hit, d *draws) []kernel.Hit {
	switch s := p.spec; {
	case s.Scheme == BallsInBins:
		return p.every(dst, d.below(s.MinSep))
	case s.Scheme == CyclicPoisson:
		return p.cyclic(dst, d)
	case s.Scheme == MultiOwner:
		return p.sampledOwner(dst, d)
	}
	for range p.spec.examplesPerOwner() {
		dst = p.renewal(dst, d)
	}
	if p.spec.examplesPerOwner() > 1 {
		slices.SortFunc(dst, func(a, b kernel.Hit) int { return cmp.Compare(a.Step, b.Step) })
	}
	return dst
}

func (p participations) every(dst []kernel.Hit, first int) []kernel.Hit {
	for i := first; i < p.spec.Steps; i += p.spec.MinSep {
		dst = append(dst, kernel.Hit{Step: i, Times: 1})
	}
	return dst
}

func (p participations) cyclic(dst []kernel.Hit, d *draws) []kernel.Hit {
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

// renewal appends the participations of one example (arXiv 2602.09338, Algorithms 1 and 2).
func (p participations) renewal(dst []kernel.Hit, d *draws) []kernel.Hit {
	n := p.spec.Steps
	for i := p.wait(d); ; i += p.spec.MinSep {
		i += d.failures(p.logQ, n)
		if i >= n {
			return dst
		}
		dst = append(dst, kernel.Hit{Step: i, Times: 1})
	}
}

// sampledOwner appends the participations of an owner in Algorithm 3: by its published law (F4.1) blocked after a
// participation, else (F4.4) whenever one of its examples was sampled in the b-1 steps before.
func (p participations) sampledOwner(dst []kernel.Hit, d *draws) []kernel.Hit {
	n, b, k := p.spec.Steps, p.spec.MinSep, p.spec.examplesPerOwner()
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
		if i >= free || !p.spec.PublishedLaw {
			free = i + b
		}
	}
}

// sampled draws from Binom(k, p) given that it is at least 1.
func (p participations) sampled(d *draws) int {
	k := p.spec.examplesPerOwner()
	if math.IsInf(p.logQ, -1) {
		return k
	}
	some := -math.Expm1(float64(k) * p.logQ)
	first := int(math.Log1p(-d.uniform()*some) / p.logQ) // the first sampled example, given that there is one
	return 1 + d.binomial(max(0, k-1-first), p.spec.Prob)
}

// counts draws how many of the other examples are sampled at each step: r_i ~ Binom(a_i, p) of the a_i available, a_{i+1} = a_i - r_i
// + r_{i+1-b} and those whose first wait ends (F3.6). The waits of a warm start are stationary and independent.
func (p participations) counts(dst []int, d *draws) []int {
	n, b, prob := p.spec.Steps, p.spec.MinSep, p.spec.Prob
	dst = dst[:0]
	waiting, available := 0, p.spec.Examples-1
	if p.spec.WarmStart {
		available = d.binomial(p.spec.Examples-1, 1/(1+float64(b-1)*prob))
		waiting = p.spec.Examples - 1 - available
	}
	for i := range n {
		if i > 0 && i < b && waiting > 0 {
			free := d.binomial(waiting, 1/float64(b-i)) // the waits that are left are uniform on i … b-1
			waiting, available = waiting-free, available+free
		}
		if i >= b {
			available += dst[i-b]
		}
		r := d.binomial(available, prob)
		dst = append(dst, r)
		available -= r
	}
	return dst
}

// truncate turns the participations of one example into those that count with batches cut to MaxBatchSize (F3.6): for P an example that
// had to survive counts twice, for Q it counts -1 and the others not at all.
func truncate(hits []kernel.Hit, l *law.Truncated, d *draws, direction Direction) []kernel.Hit {
	kept := hits[:0]
	for _, hit := range hits {
		count := l.Counts[hit.Step]
		switch {
		case count < l.MaxBatch && direction == P:
			kept = append(kept, hit)
		case count < l.MaxBatch:
		case d.uniform() >= l.Survival(count):
		case direction == P:
			kept = append(kept, kernel.Hit{Step: hit.Step, Times: 2})
		default:
			kept = append(kept, kernel.Hit{Step: hit.Step, Times: -1})
		}
	}
	return kept
}

package montecarlo

import (
	"cmp"
	"math"
	"slices"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/law"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/sampling"
)

// participations draws when one owner's examples participate.
type participations struct {
	spec    Spec
	scheme  scheme
	logQ    float64 // ln(1-p)
	law     law.Law // or nil
	starts  []law.Start
	drawn   bool
	process *sampling.TableProcess // of the scheme law
	each    int                    // processes of the owner: one an example, but for MultiOwner
}

func newParticipations(s Spec) participations {
	p := participations{spec: s, scheme: schemes[s.Scheme], logQ: math.Log1p(-s.Prob), law: s.Law(), each: s.ExamplesPerOwner()}
	if s.Scheme == MultiOwner {
		p.each = 1
	}
	if s.LawTable != nil {
		p.process = s.LawTable.Process().(*sampling.TableProcess)
	}
	if p.law != nil {
		p.starts, p.drawn = p.law.Starts()
	}
	if s.EpochSteps > 0 { // of a free example, up to place b-1 of an epoch
		p.logQ = math.Log1p(-1 / float64(s.EpochSteps-s.MinSep+1))
	}
	return p
}

// appendHits appends the participations of one sample to dst, sorted by step.
func (p participations) appendHits(dst []kernel.Hit, d *draws) []kernel.Hit {
	for range p.each {
		dst = p.scheme.draw(p, dst, d)
	}
	if p.each > 1 {
		slices.SortFunc(dst, func(a, b kernel.Hit) int { return cmp.Compare(a.Step, b.Step) })
	}
	return dst
}

// counts draws how many of the other examples are sampled at each step: r_i ~ Binom(a_i, p) of
// the a_i available, a_{i+1} = a_i - r_i + r_{i+1-b} plus the examples with a first wait that
// ends (F3.6). The waits of a warm start are stationary and independent.
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

// truncate turns the participations of one example into hits with batches cut to MaxBatchSize
// (F3.6). In a batch that is cut, a participation that survives counts twice for P and -1 times for
// Q. In another batch it counts as it is for P, and not at all for Q.
func truncate(hits []kernel.Hit, l *likelihood.Truncated, d *draws, direction Direction) []kernel.Hit {
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

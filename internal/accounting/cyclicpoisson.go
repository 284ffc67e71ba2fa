package accounting

import (
	"math"

	"minsep/internal/accounting/pld"
	"minsep/sampling"
)

func init() {
	register(func(r Run, s sampling.CyclicPoisson) analysis { return cyclicPoisson{r, s} })
}

// cyclicPoisson is Poisson subsampling of the turns of a part (F3.5), and with a secret partition a
// mixture over the parts.
type cyclicPoisson struct {
	run    Run
	scheme sampling.CyclicPoisson
}

func (a cyclicPoisson) method() (Method, error) {
	switch {
	case a.run.Strategy.Bands() > a.scheme.MinSep:
		return a.run.refuseBands("", overlap)
	case a.run.MaxExamplesPerOwner > 1:
		return a.run.refuseBy(ownersInParts)
	case a.run.Sampler.Truncation != nil && a.scheme.SecretPartition:
		return a.run.refuseBy(secretSizes)
	case a.majorized() && a.run.Strategy.NonNegative():
		return MonteCarlo, nil
	}
	return PLD, nil
}

// participation: with secret parts every example may be drawn at every step, with probability p/b.
// With known parts an example is drawn in its part's turns only, and the largest part is the worst.
func (a cyclicPoisson) participation() participation {
	s := a.scheme
	none := func(turns int) float64 { return math.Pow(1-s.Prob, float64(turns)) / upward }
	turns, more := s.Steps/s.MinSep, s.Steps%s.MinSep // of most parts, and the number of parts with one more
	if a.majorized() {
		parts := float64(s.MinSep)
		return participation{rates: []rate{{s.Prob / parts * upward, s.Steps}}, drawn: a.run.Examples,
			never: (float64(more)*none(turns+1) + (parts-float64(more))*none(turns)) / parts}
	}
	if more > 0 {
		turns++
	}
	parts := int64(s.MinSep)
	return participation{
		rates:       []rate{{s.Prob, turns}},
		drawn:       (a.run.Examples + parts - 1) / parts,
		never:       none(turns),
		independent: true,
	}
}

// majorized: by joint convexity of divergences, a mixture over secret parts is no worse than its
// worst part.
func (a cyclicPoisson) majorized() bool { return a.scheme.SecretPartition && a.scheme.MinSep > 1 }

// cases: with a maximum batch size and parts of two sizes, each size has its own case.
func (a cyclicPoisson) cases(noiseMultiplier float64) (list [][]pld.Step) {
	each := pld.Release{Prob: a.scheme.Prob, NoiseMultiplier: noiseMultiplier, Examples: 1}
	parts, norms := a.scheme.MinSep, a.run.ColumnNorms()
	t := a.run.Sampler.Truncation
	if t == nil {
		return [][]pld.Step{pld.Cyclic(each, norms, parts)}
	}
	small := int(a.run.Examples) / parts
	sizes := []int{max(small, 1)}
	if int(a.run.Examples)%parts != 0 && small > 0 {
		sizes = append(sizes, small+1)
	}
	for _, size := range sizes {
		each.Truncation = &pld.Truncation{MaxBatchSize: t.MaxBatchSize, Others: size - 1}
		list = append(list, pld.Cyclic(each, norms, parts))
	}
	return list
}

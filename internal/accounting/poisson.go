package accounting

import (
	"minsep/internal/accounting/pld"
	"minsep/mechanism"
	"minsep/sampling"
)

func init() {
	register(func(r Run, s sampling.Poisson) analysis { return poisson{r, s} })
}

// poisson is Poisson subsampling. With independent noise its steps are independent events (F6);
// otherwise it is b-min-sep with min-sep 1 (F3.13).
type poisson struct {
	run    Run
	scheme sampling.Poisson
}

func (a poisson) method() (Method, error) {
	if a.run.Strategy.Bands() == 1 {
		return PLD, nil
	}
	return a.run.byLikelihoods()
}

func (a poisson) sensitivity() (mechanism.Sensitivity, error) {
	return a.run.Strategy.Sensitivity(mechanism.Participation{MinSep: 1})
}

func (a poisson) participation() participation {
	return a.run.renewalParticipation(sampling.BMinSep{Prob: a.scheme.Prob, Steps: a.scheme.Steps, MinSep: 1})
}

func (a poisson) cases(noiseMultiplier float64) [][]pld.Step {
	each := pld.Release{Prob: a.scheme.Prob, NoiseMultiplier: noiseMultiplier, Examples: a.run.MaxExamplesPerOwner}
	if t := a.run.Sampler.Truncation; t != nil {
		each.Truncation = &pld.Truncation{MaxBatchSize: t.MaxBatchSize, Others: int(a.run.Examples) - 1}
	}
	return [][]pld.Step{pld.Cyclic(each, a.run.ColumnNorms(), 1)}
}

package accounting

import (
	"minsep/accounting/montecarlo"
	"minsep/sampling"
)

func init() {
	register(func(r Run, s sampling.BMinSep) analysis { return bMinSep{r, s} })
}

// bMinSep is b-min-sep subsampling of each example on its own (F3.2, F3.3, F3.6, F3.7, F4.2, F4.3, F4.5).
type bMinSep struct {
	run    Run
	scheme sampling.BMinSep
}

func (a bMinSep) method() (Method, error) { return a.run.byLikelihoods() }

// byLikelihoods is the method of schemes that are b-min-sep with some parameters.
func (r Run) byLikelihoods() (Method, error) {
	bands, minSep := r.Strategy.Bands(), r.Sampler.Scheme().Separation()
	switch {
	case r.Sampler.Truncation != nil && bands > minSep:
		return r.refuse("a maximum batch size needs a strategy of at most min-sep bands: it has %d, min-sep is %d", bands, minSep)
	case bands > minSep && r.MaxExamplesPerOwner > 1:
		return r.refuse("several examples per owner need a strategy of at most min-sep bands: it has %d, min-sep is %d", bands, minSep)
	case !r.Strategy.NonNegative():
		return r.refuse(negativeEntry)
	}
	return MonteCarlo, nil
}

func (a bMinSep) loss(spec *montecarlo.Spec) {
	spec.Prob, spec.WarmStart = a.scheme.Prob, a.scheme.WarmStart
}

func (a bMinSep) canonical() canonicalSampler { return canonicalBMinSep(a.scheme) }

// canonicalBMinSep is the form of all schemes that are b-min-sep with some parameters. With min-sep 1 nobody waits at the start.
func canonicalBMinSep(s sampling.BMinSep) canonicalSampler {
	if s.WarmStart && s.MinSep >= s.Steps && s.MinSep > 1 {
		return atMostOnce(s.Steps, s.Rate())
	}
	return canonicalSampler{scheme: s.Name(), prob: s.Prob, steps: s.Steps, minSep: s.MinSep, warm: s.WarmStart}
}

package accounting

import (
	"math"

	"minsep/mechanism"
	"minsep/sampling"
)

func init() {
	register(func(r Run, s sampling.BMinSep) analysis { return bMinSep{allocationEvents{r}, s} })
}

// bMinSep is b-min-sep subsampling of each example on its own (F3.2, F3.13, F4.2, F4.8).
type bMinSep struct {
	allocationEvents
	scheme sampling.BMinSep
}

func (a bMinSep) method() (Method, error) {
	if a.run.allocated() {
		return PLD, nil
	}
	return a.run.byLikelihoods()
}

// byLikelihoods is the method of schemes that equal b-min-sep for some parameters.
func (r Run) byLikelihoods() (Method, error) {
	bands, minSep := r.Strategy.Bands(), r.Sampler.Scheme().Separation()
	switch {
	case r.Sampler.Truncation != nil && bands > minSep:
		return r.refuseBands(
			", or no --max-batch-size",
			"a maximum batch size needs a strategy of at most min-sep bands: it has %d, min-sep is %d",
		)
	case bands > minSep && r.MaxExamplesPerOwner > 1:
		return r.refuseBands(
			", or --max-per-owner 1",
			"several examples per owner need a strategy of at most min-sep bands: it has %d, min-sep is %d",
		)
	case !r.Strategy.NonNegative():
		return r.refuseBy(negativeEntry)
	}
	return MonteCarlo, nil
}

func (a bMinSep) sensitivity() (mechanism.Sensitivity, error) {
	return a.run.Strategy.Sensitivity(mechanism.Participation{MinSep: a.scheme.MinSep})
}

func (a bMinSep) participation() participation { return a.run.renewalParticipation(a.scheme) }

// renewalParticipation is the participation of b-min-sep (F3.1). From a warm start every step has
// the same rate. From a cold start the rate is p at the first step and then oscillates. Given one
// participation, the probability at any other step is at most p.
func (r Run) renewalParticipation(s sampling.BMinSep) participation {
	p, n, b := s.Prob, s.Steps, s.MinSep
	distribution := participation{
		drawn:       r.Examples,
		spread:      p,
		minSep:      b,
		independent: b == 1,
		separate:    true,
		cold:        !s.WarmStart,
	}
	none := func(steps int) float64 { return math.Pow(1-p, float64(steps)) }
	if !s.WarmStart || b == 1 {
		distribution.never = none(n) / upward
		available := 1.0
		for i := range n {
			if b == 1 {
				distribution.rates = []rate{{p, n}}
				break
			}
			distribution.rates = append(distribution.rates, rate{p * available * upward, 1})
			available *= 1 - p
			if i+1 >= b {
				available += distribution.rates[i+1-b].prob / upward
			}
		}
		return distribution
	}
	distribution.rates = []rate{{s.Rate() * upward, n}}
	distribution.never = none(n)
	for wait := 1; wait < b; wait++ {
		distribution.never += p * none(max(0, n-wait))
	}
	distribution.never /= (1 + float64(b-1)*p) * upward
	return distribution
}

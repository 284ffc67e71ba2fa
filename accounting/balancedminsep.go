package accounting

import (
	"math"

	"minsep/accounting/montecarlo"
	"minsep/mechanism"
	"minsep/sampling"
)

func init() {
	register(func(r Run, s sampling.BalancedMinSep) analysis { return balancedMinSep{allocationEvents{r}, s} })
}

// balancedMinSep is participation a fixed number of times, with a least distance and equal rates
// (F3.9). The loss of an owner of several examples is drawn (F4.8).
type balancedMinSep struct {
	allocationEvents
	scheme sampling.BalancedMinSep
}

func (a balancedMinSep) method() (Method, error) {
	if a.run.allocated() {
		return PLD, nil
	}
	return a.run.separately()
}

// separately is the method of schemes with known likelihoods, where the columns of different
// participations do not overlap.
func (r Run) separately() (Method, error) {
	switch {
	case r.Strategy.Bands() > r.Sampler.Scheme().Separation():
		return r.refuseBands("", overlap)
	case r.Sampler.Truncation != nil:
		return r.refuseBy(noTruncation)
	case !r.Strategy.NonNegative():
		return r.refuseBy(negativeEntry)
	}
	return MonteCarlo, nil
}

// sensitivity: an example takes part as often as the next whole number says.
func (a balancedMinSep) sensitivity() (mechanism.Sensitivity, error) {
	s := a.scheme
	return a.run.Strategy.Sensitivity(mechanism.Participation{MinSep: s.MinSep, MaxParticipations: int(math.Ceil(s.Participations))})
}

// participation: every step has rate κ/n. For κ below 1 an example takes part nowhere with
// probability 1-κ.
func (a balancedMinSep) participation() participation {
	n, times := a.scheme.Steps, a.scheme.Participations
	return participation{rates: []rate{{upward * times / float64(n), n}}, drawn: a.run.Examples, never: max(0, 1-times) / upward}
}

func (a balancedMinSep) loss(spec *montecarlo.Spec) {
	spec.Participations, spec.Hazards = a.scheme.Participations, a.scheme.Hazards
}

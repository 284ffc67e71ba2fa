package accounting

import (
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

func (a bMinSep) sensitivity() (mechanism.Sensitivity, error) {
	return a.run.Strategy.Sensitivity(mechanism.Participation{MinSep: a.scheme.MinSep})
}

func (a bMinSep) participation() participation { return a.run.renewalParticipation(a.scheme) }

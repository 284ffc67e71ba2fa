package accounting

import (
	"minsep/mechanism"
	"minsep/sampling"
)

func init() {
	register(func(r Run, s sampling.EpochMinSep) analysis { return epochMinSep{allocationEvents{r}, s} })
}

// epochMinSep is participation exactly once an epoch, with a least distance (F3.8). The loss of an
// owner of several examples is drawn (F4.8).
type epochMinSep struct {
	allocationEvents
	scheme sampling.EpochMinSep
}

func (a epochMinSep) method() (Method, error) {
	if a.run.allocated() {
		return PLD, nil
	}
	return a.run.separately()
}

// sensitivity: an example takes part once in an epoch.
func (a epochMinSep) sensitivity() (mechanism.Sensitivity, error) {
	s := a.scheme
	return a.run.Strategy.Sensitivity(
		mechanism.Participation{MinSep: s.MinSep, MaxParticipations: (s.Steps + s.EpochSteps - 1) / s.EpochSteps},
	)
}

func (a epochMinSep) participation() participation {
	return a.run.uniform(a.scheme.Steps, a.scheme.EpochSteps)
}

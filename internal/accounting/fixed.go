package accounting

import (
	"minsep/mechanism"
	"minsep/sampling"
)

func init() {
	register(func(r Run, s sampling.Fixed) analysis { return fixed{r, s} })
}

// fixed is the Gaussian mechanism with the sensitivity of the strategy, without amplification (F2).
type fixed struct {
	run    Run
	scheme sampling.Fixed
}

func (a fixed) method() (Method, error) { return ClosedForm, nil }

func (a fixed) sensitivity() (mechanism.Sensitivity, error) {
	s := a.scheme
	most := s.MaxParticipations
	if most == 0 {
		most = (s.Steps + s.MinSep - 1) / s.MinSep
	}
	return a.run.Strategy.Sensitivity(mechanism.Participation{MinSep: s.MinSep, MaxParticipations: most})
}

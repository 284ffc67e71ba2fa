package tilt

import (
	"errors"
	"math"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/montecarlo/internal/tuples"
)

// Moment is ln N_θ = ln E_Q f^θ of one example (F5.2), rounded upward. LogN is for the whole run,
// as the scheme starts. Cold is for a cold start. It bounds ln N_θ of the steps from min-sep after
// a known participation on, and of the steps until min-sep before one; +Inf where no bound is
// known.
type Moment struct {
	Order      int     // θ, at least 2
	LogN, Cold float64 // in nats
}

// Moments returns the moments of up to three orders that take little time. The first is the least
// order that is at least 2 and above the number of examples per owner. The list is empty for a spec
// that has no tilted proposal.
func Moments(s montecarlo.Spec) (list []Moment, err error) {
	if err := s.Validate(); err != nil {
		return nil, err
	}
	columns := likelihood.NewColumns(s.Strategy)
	if err := tiltable(s, columns); errors.Is(err, ErrNotTilted) {
		return nil, nil
	}
	family := familyOf(s)
	cold := s
	cold.WarmStart = false
	least := max(2, s.MaxExamplesPerOwner+1)
	for order := least; order <= min(least+2, maxOrder); order++ {
		if !family.affordable(s, order) || order > least && tuples.Count(s.MinSep, order-1)*float64(s.Steps) > maxOrderWork {
			break
		}
		of, err := family.source(s, columns, order, false, nil)
		if err != nil {
			break // its numbers leave the range of float64, or its tables are too large
		}
		m := Moment{Order: order, LogN: of.logN(), Cold: of.logN()}
		switch {
		case s.WarmStart && s.MinSep >= s.Steps:
			m.Cold = 0 // nobody takes part a second time
		case s.WarmStart:
			m.Cold = math.Inf(1) // where it is not known
			if of, err = familyOf(cold).source(cold, columns, order, false, nil); err == nil {
				m.Cold = of.logN()
			}
		}
		if !math.IsNaN(m.LogN+m.Cold) && !math.IsInf(m.LogN, 0) {
			list = append(list, m)
		}
	}
	return list, nil
}

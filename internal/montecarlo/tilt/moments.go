package tilt

import (
	"math"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/internal/montecarlo/internal/tuples"
	"minsep/sampling"
)

// Moment is ln N_θ = ln E_Q f^θ of one example (F5.2), rounded upward. LogN is for the whole run,
// as the scheme starts. Cold is for a cold start of a law that is the same at every step. It bounds ln N_θ of the steps from min-sep after
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
	family := familyOf(s)
	if family == nil {
		return nil, nil
	}
	columns := likelihood.NewColumns(s.Strategy)
	least := max(2, s.MaxExamplesPerOwner+1)
	for order := least; order <= min(least+2, maxOrder); order++ {
		if !family.affordable(s, order) ||
			order > least && tuples.Count(s.MinSep(), order-1)*float64(s.Steps()) > maxOrderWork {
			break
		}
		of, err := family.source(s, columns, order, false, nil)
		if err != nil {
			break // its numbers leave the range of float64, or its tables are too large
		}
		m := Moment{Order: order, LogN: of.logN(), Cold: math.Inf(1)}
		if s.MinSep() >= s.Steps() {
			m.Cold = 0 // nobody takes part a second time
		} else if cold, ok := coldOf(s); ok {
			if of, err = newLawFamily(cold).source(cold, columns, order, false, nil); err == nil {
				m.Cold = of.logN()
			}
		}
		if !math.IsNaN(m.LogN+m.Cold) && !math.IsInf(m.LogN, 0) {
			list = append(list, m)
		}
	}
	return list, nil
}

// coldOf is a spec whose law is the same at every step, in one state, from a cold start.
func coldOf(s montecarlo.Spec) (cold montecarlo.Spec, ok bool) {
	if len(s.Law.Rows) != 1 || len(s.Law.Rows[0]) != 1 {
		return s, false
	}
	start := sampling.TableStart{State: s.Law.Rows[0][0].State, Weight: 1 << 63}
	cold = s
	cold.Law = &sampling.Table{
		Steps:   s.Law.Steps,
		Starts:  []sampling.TableStart{start},
		Rows:    s.Law.Rows,
		Classes: s.Law.Classes,
	}
	return cold, cold.Law.Validate() == nil
}

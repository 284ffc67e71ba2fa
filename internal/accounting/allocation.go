package accounting

import (
	"minsep/internal/accounting/pld"
)

// inPeriods divides steps into periods; the last one may be shorter.
func inPeriods(each pld.Allocation, steps, period int) (periods []pld.Allocation) {
	each.Steps = float64(period)
	if each.Places, each.Count = period, steps/period; each.Count > 0 {
		periods = append(periods, each)
	}
	if each.Places, each.Count = steps%period, 1; each.Places > 0 {
		periods = append(periods, each)
	}
	return periods
}

// allocationEvents is the eventAnalysis of runs that are composed of allocations.
type allocationEvents struct{ run Run }

func (a allocationEvents) compositions(noiseMultiplier float64) ([]*pld.Composition, error) {
	periods, ok := a.run.Allocations(noiseMultiplier)
	if !ok {
		return nil, ErrNoProof
	}
	c, err := pld.ComposeAllocations(periods)
	return []*pld.Composition{c}, err
}

// dominating fails: package pld has no event for a period.
func (allocationEvents) dominating(float64) ([]pld.Step, error) { return nil, ErrNoProof }

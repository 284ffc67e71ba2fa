package accounting

import (
	"minsep/internal/accounting/pld"
)

// inPeriods divides steps into periods; the last one may be shorter.
func inPeriods(each pld.Allocation, steps, period int) (periods []pld.Step) {
	each.Steps = float64(period)
	if each.Places = period; steps >= period {
		periods = append(periods, pld.Step{Event: each, Count: steps / period})
	}
	if each.Places = steps % period; each.Places > 0 {
		periods = append(periods, pld.Step{Event: each, Count: 1})
	}
	return periods
}

// allocationEvents is the eventAnalysis of runs that are composed of allocations.
type allocationEvents struct{ run Run }

func (a allocationEvents) cases(noiseMultiplier float64) [][]pld.Step {
	periods, _ := a.run.Allocations(noiseMultiplier)
	return [][]pld.Step{periods}
}

// uniform is the participation of an example that takes part once in each period, at a uniform step:
// in every whole period for sure.
func (r Run) uniform(steps, period int) participation {
	return participation{
		rates: []rate{{upward / float64(period), steps}},
		drawn: r.Examples,
		never: max(0, 1-float64(steps)/float64(period)) / upward,
	}
}

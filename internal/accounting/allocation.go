package accounting

import (
	"math"
	"slices"

	"minsep/internal/accounting/pld"
	"minsep/sampling"
)

// Allocations returns the periods that compose a run (F6.3). ok is false unless an owner
// takes part at most once in each period, at every step with the same probability, and the noise is
// independent and the same at every step.
func (r Run) Allocations(noiseMultiplier float64) (periods []pld.Allocation, ok bool) {
	if r.MaxExamplesPerOwner != 1 || r.Sampler.Truncation != nil || r.Strategy.Bands() != 1 ||
		!r.Strategy.NonNegative() {
		return nil, false
	}
	norms := r.ColumnNorms()
	most := slices.Max(norms)
	if slices.Min(norms) < most*(1-1e-9) {
		return nil, false
	}
	each, steps := pld.Allocation{NoiseMultiplier: noiseMultiplier, Sensitivity: most, Count: 1}, r.steps()
	switch s := r.Sampler.Scheme().(type) {
	case sampling.Rotation:
		return inPeriods(each, steps, s.EpochSteps), true
	case sampling.EpochMinSep:
		if s.MinSep == 1 || s.EpochSteps >= steps {
			return inPeriods(each, steps, s.EpochSteps), true
		}
	case sampling.BallsInBins: // a bin's epochs are one step with √epochs times less noise
		if epochs := max(1, steps/s.Period); epochs == 1 && steps <= s.Period || steps%s.Period == 0 {
			each.Sensitivity *= math.Sqrt(float64(epochs)) * upward
			return inPeriods(each, min(steps, s.Period), s.Period), true
		}
	case sampling.BMinSep:
		if s.MinSep >= steps && s.WarmStart {
			each.Steps, each.Places = max(float64(steps), 1/(s.Rate()*upward)), steps
			return []pld.Allocation{each}, true
		}
	}
	return nil, false
}

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

// allocated reports whether a run, without its truncation, is composed of allocations.
func (r Run) allocated() bool {
	_, ok := r.Untruncated().Allocations(1)
	return ok
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

package accounting

import (
	"slices"

	"minsep/accounting/pld"
	"minsep/sampling"
)

// Allocations are periods that a run is composed of, in each of which an owner takes part at one
// uniform step: rotation, and epoch-min-sep without a least distance, with independent noise that
// is the same at every step (F6.3). ok is false for other runs.
func (r Run) Allocations(noiseMultiplier float64) (periods []pld.Allocation, ok bool) {
	steps, epoch := r.steps(), 0
	switch s := r.Sampler.Scheme().(type) {
	case sampling.Rotation:
		epoch = s.EpochSteps
	case sampling.EpochMinSep:
		if s.MinSep == 1 {
			epoch = s.EpochSteps
		}
	}
	if epoch == 0 || r.MaxExamplesPerOwner != 1 || r.Sampler.Truncation != nil || r.Strategy.Bands() != 1 || !r.Strategy.NonNegative() {
		return nil, false
	}
	norms := r.ColumnNorms()
	most := slices.Max(norms)
	if slices.Min(norms) < most*(1-1e-9) {
		return nil, false
	}
	whole := pld.Allocation{Steps: epoch, Places: epoch, NoiseMultiplier: noiseMultiplier, Sensitivity: most, Count: steps / epoch}
	if whole.Count > 0 {
		periods = append(periods, whole)
	}
	if rest := steps % epoch; rest > 0 {
		periods = append(periods, pld.Allocation{Steps: epoch, Places: rest, NoiseMultiplier: noiseMultiplier, Sensitivity: most, Count: 1})
	}
	return periods, true
}

// allocated says that a run without its truncation is one of allocations.
func (r Run) allocated() bool {
	_, ok := r.Untruncated().Allocations(1)
	return ok
}

// allocationEvents is the eventAnalysis of such runs.
type allocationEvents struct{ run Run }

func (a allocationEvents) compositions(noiseMultiplier float64) ([]*pld.Composition, error) {
	periods, ok := a.run.Allocations(noiseMultiplier)
	if !ok {
		return nil, ErrNoProof
	}
	c, err := pld.ComposeAllocations(periods)
	return []*pld.Composition{c}, err
}

// dominating: a period is no event of package pld.
func (allocationEvents) dominating(float64) ([]pld.Step, error) { return nil, ErrNoProof }

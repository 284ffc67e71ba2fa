package accounting

import (
	"slices"
	"testing"

	"minsep/internal/accounting/pld"
	"minsep/mechanism"
	"minsep/sampling"
)

// TestAllocations: every step is a place of a period, the last period cut too, and what is no
// composition of periods is not taken for one.
func TestAllocations(t *testing.T) {
	of := func(steps, epoch int, s *mechanism.Strategy) Run {
		return Run{Sampler: sampling.Spec{Rotation: &sampling.Rotation{Steps: steps, EpochSteps: epoch}}, Strategy: s, MaxExamplesPerOwner: 1}
	}
	for _, c := range []struct {
		steps, epoch int
		places       []int // by period, a period for each of Count
	}{{8, 4, []int{4, 4}}, {10, 4, []int{4, 4, 2}}, {9, 4, []int{4, 4, 1}}, {3, 4, []int{3}}, {5, 1, []int{1, 1, 1, 1, 1}}} {
		periods, ok := of(c.steps, c.epoch, mechanism.Identity(c.steps)).Allocations(0.7)
		var places []int
		for _, p := range periods {
			a := p.Event.(pld.Allocation)
			if a != (pld.Allocation{Steps: float64(c.epoch), Places: a.Places, NoiseMultiplier: 0.7, Sensitivity: 1}) {
				t.Errorf("%d steps in periods of %d: %+v", c.steps, c.epoch, p)
			}
			places = append(places, slices.Repeat([]int{a.Places}, p.Count)...)
		}
		if !ok || !slices.Equal(places, c.places) {
			t.Errorf("%d steps in periods of %d: places %v, want %v", c.steps, c.epoch, places, c.places)
		}
	}

	bands := &mechanism.Strategy{Kind: mechanism.KindDense, Steps: 4, Columns: [][]float64{{.8, .6}, {.8, .6}, {.8, .6}, {1}}}
	unequal := &mechanism.Strategy{Kind: mechanism.KindDense, Steps: 4, Columns: [][]float64{{1}, {2}, {1}, {1}}}
	several, cut := of(8, 4, mechanism.Identity(8)), of(8, 4, mechanism.Identity(8))
	several.MaxExamplesPerOwner = 2
	cut.Sampler.Truncation = &sampling.Truncation{MaxBatchSize: 3}
	apart := Run{Sampler: sampling.Spec{EpochMinSep: &sampling.EpochMinSep{Steps: 8, MinSep: 2, EpochSteps: 4}}, Strategy: mechanism.Identity(8), MaxExamplesPerOwner: 1}
	sampled := func(s sampling.Spec) Run {
		return Run{Sampler: s, Strategy: mechanism.Identity(8), MaxExamplesPerOwner: 1}
	}
	for name, run := range map[string]Run{
		"a cold start":        sampled(sampling.Spec{BMinSep: &sampling.BMinSep{Prob: .3, Steps: 8, MinSep: 8}}),
		"b-min-sep, twice":    sampled(sampling.Spec{BMinSep: &sampling.BMinSep{Prob: .3, Steps: 8, MinSep: 7, WarmStart: true}}),
		"bins of other sizes": sampled(sampling.Spec{BallsInBins: &sampling.BallsInBins{Steps: 8, Period: 5}}),
		"two bands":           of(4, 2, bands), "columns of other norms": of(4, 2, unequal), "several examples": several, "a maximum batch size": cut, "a min-sep of two": apart,
	} {
		if periods, ok := run.Allocations(1); ok {
			t.Errorf("%s: is a composition of %v", name, periods)
		}
	}
}

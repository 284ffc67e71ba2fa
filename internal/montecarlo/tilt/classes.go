package tilt

import (
	"math"
	"slices"

	"minsep/internal/accounting/pld"
	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/likelihood"
)

// classBound is a bound of H(Q,P) of one example, under epoch-min-sep or with at most one
// participation, by a privacy loss distribution (F5.15). A class is steps of an epoch that are as
// far apart as the number of bands, so that columns of one class do not overlap. f is a mean over
// classes. Places are left out if they are so late that the example may not be free when the next
// epoch begins. The result is 1 where there is no such bound.
func classBound(c Config, columns *likelihood.Columns) float64 {
	periods, loss, ok := classes(c.Spec, columns)
	epsilon := c.Epsilon + loss
	if !ok || epsilon < 0 {
		return 1
	}
	composition, err := pld.ComposeAllocations(periods)
	if err != nil {
		return 1
	}
	delta, err := composition.QP.Delta(epsilon)
	if err != nil || !(delta.Upper < 1) {
		return 1
	}
	return delta.Upper * (1 + inflation)
}

// classes returns the periods of independent places, with the ratio f', and loss: f is at least
// e^loss times a mean of variables with the distribution of f'.
func classes(s montecarlo.Spec, columns *likelihood.Columns) (periods []pld.Allocation, loss float64, ok bool) {
	if s.MaxExamplesPerOwner > 1 || s.MaxBatchSize > 0 {
		return nil, 0, false
	}
	norm := slices.Max(columns.SquaredNorms(1))
	each := pld.Allocation{NoiseMultiplier: s.NoiseMultiplier, Sensitivity: math.Sqrt(norm) * (1 + inflation), Count: 1}
	if m := each.Sensitivity / each.NoiseMultiplier; m*m > mostClassNorm {
		return nil, 0, false
	}
	// class is count periods of total steps each, with steps of them in the run, scaled to the places
	// of a class.
	class := func(steps int, total float64, count int) pld.Allocation {
		places := min(mostClassPlaces, max(1, steps/columns.Bands))
		each.Places, each.Count = places, count
		each.Steps = max(float64(places), float64(places)*total/float64(steps)*(1-inflation))
		return each
	}
	if once, is := singleOf(s); is {
		return []pld.Allocation{class(s.Steps, 1/once.First, 1)}, 0, once.Ratio == 1
	}
	if s.Scheme != montecarlo.EpochMinSep || columns.Bands > s.MinSep {
		return nil, 0, false
	}
	length, free := float64(s.EpochSteps), s.EpochSteps-s.MinSep+1 // free places are followed by an epoch that begins free
	epochs := (s.Steps + s.EpochSteps - 1) / s.EpochSteps
	last := s.Steps - (epochs-1)*s.EpochSteps
	// From a free start each place has at least this probability.
	least := -math.Log(float64(free))
	if s.MinSep > 1 {
		least += float64(s.MinSep-1) * math.Log1p(-1/float64(free))
	}
	loss = math.Log(float64(free)/length) + float64(epochs-2)*(least+math.Log(float64(free))) + least + math.Log(length) - inflation
	periods = []pld.Allocation{class(free, float64(free), epochs-1), class(last, length, 1)}
	return periods, loss, free > 1 || s.MinSep == 1
}

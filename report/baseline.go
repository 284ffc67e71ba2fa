package report

import (
	"context"
	"math"

	"minsep/accounting"
	"minsep/inspect"
	"minsep/mechanism"
	"minsep/planner"
	"minsep/sampling"
)

// Baseline is DP-SGD, independent noise with Poisson sampling, for the claim, the steps and the
// examples of a run. Its noise multipliers are proven, on a coarse grid of losses.
type Baseline struct {
	NoiseMultiplier float64 // at the expected batch size of the run, above 0
	Relative        float64 // its noise relative to the batch, for prefix sums, above 0
	BatchSize       float64 // at which its noise relative to the batch is that of the run; 0 if none up to half of the examples
}

// baseline compares a run with DP-SGD; nil where the run has no certificate, or DP-SGD none for its
// claim.
func (r *Run) baseline(ctx context.Context) *Baseline {
	c, own := r.Certificate, r.noiseRelative()
	if c == nil || c.Status != accounting.Verified || r.Report.State == inspect.StateBroken || math.IsNaN(own) {
		return nil
	}
	if c.Run.Sampler.Poisson != nil && c.Run.Strategy.Bands() == 1 { // it is DP-SGD
		return nil
	}
	copies, identity := float64(r.copies()), mechanism.Identity(c.Run.Strategy.Steps)
	e, err := identity.Error(mechanism.Prefix(identity.Steps))
	if err != nil {
		return nil
	}
	var last *planner.Noise
	at := func(batch float64) (relative float64, ok bool) {
		spec := sampling.Spec{Poisson: &sampling.Poisson{Prob: batch / copies, Steps: identity.Steps}, Owners: c.Run.Sampler.Owners}
		n, err := planner.Find(ctx, accounting.Run{Sampler: spec, Strategy: identity, MaxExamplesPerOwner: c.Run.MaxExamplesPerOwner}, c.Epsilon, c.Delta, last, math.Inf(1))
		if err != nil || !n.Proven {
			return 0, false
		}
		last = &n
		return n.Multiplier * e.RMSE / batch, true
	}
	batch := r.batchSize()
	relative, ok := at(batch)
	if !ok {
		return nil
	}
	b := &Baseline{NoiseMultiplier: last.Multiplier, Relative: relative}
	for below := batch; relative > own && batch < copies/2; below = batch {
		before := relative
		batch = min(copies/2, math.Sqrt2*batch)
		if relative, ok = at(batch); !ok {
			return b
		}
		if relative <= own { // a power law between two batch sizes
			b.BatchSize = below * math.Pow(batch/below, math.Log(own/before)/math.Log(relative/before))
		}
	}
	return b
}

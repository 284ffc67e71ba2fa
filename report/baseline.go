package report

import (
	"context"

	"minsep/inspect"
	"minsep/mechanism"
	"minsep/planner"
)

// Baseline is DP-SGD, independent noise with Poisson sampling, for the claim, the steps and the
// examples of a run, by prefix sums.
type Baseline struct {
	planner.Beside
	BatchSize float64 // at which its noise relative to the batch equals the run's; 0 if none up to half of the examples
}

// baseline compares a run with DP-SGD; nil where the run has no certificate, or DP-SGD none for its
// claim.
func (r *Run) baseline(ctx context.Context) *Baseline {
	c, batch := r.Certificate, r.batchSize()
	if r.Report.State == inspect.StateBroken {
		return nil
	}
	beside := planner.BesideDPSGD(c, r.drawn(), batch, mechanism.Params{}, planner.RMSE)
	if beside == nil {
		return nil
	}
	b := &Baseline{Beside: *beside}
	var err error
	if b.BatchSize, err = planner.ClaimOf(c, r.drawn()).SameAs(ctx, beside.Unit, batch, beside.Ratio*beside.Relative); err != nil {
		b.BatchSize = 0
	}
	return b
}

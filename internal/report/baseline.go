package report

import (
	"context"

	"minsep/internal/inspect"
	"minsep/internal/manifest"
	"minsep/internal/planner"
	"minsep/internal/stages"
	"minsep/mechanism"
)

// Baseline is DP-SGD, that is independent noise with Poisson sampling, for the claim, the steps,
// the examples and the workload of a run.
type Baseline struct {
	planner.Beside
	BatchSize float64 // at which its noise relative to the batch equals the run's; 0 if none up to half of the examples
}

// baseline compares a run with DP-SGD. It returns nil if the run has no certificate, or if no
// DP-SGD has its claim.
func (r *Run) baseline(ctx context.Context) *Baseline {
	c, batch := r.Certificate, r.batchSize()
	if r.Report.State == inspect.StateBroken {
		return nil
	}
	beside := planner.BesideDPSGD(c, r.drawn(), batch, r.workload(), planner.RMSE)
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

// workload returns the workload by which the noise of a run is measured: the workload of its plan,
// so that the page agrees with minsep plan, or prefix sums if there is no plan or its workload is a
// file.
func (r *Run) workload() mechanism.Params {
	if r.Info == nil || r.Info.Plan == nil {
		return mechanism.Params{}
	}
	plan, err := stages.ParsePlan(manifest.RunName, r.Info.Plan.Plan)
	if err != nil || plan.Strategy.WorkloadFile() != "" || plan.Strategy.Workload == "" && plan.Strategy.Training == (mechanism.Training{}) {
		return mechanism.Params{}
	}
	return mechanism.Params{Workload: plan.Strategy.Workload, Training: plan.Strategy.Training}
}

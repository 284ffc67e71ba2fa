package report

import (
	"context"
	"math"

	"minsep/internal/accounting"
	"minsep/internal/inspect"
	"minsep/internal/manifest"
	"minsep/internal/planner"
	"minsep/internal/stages"
	"minsep/mechanism"
	"minsep/sampling"
)

// Options choose the contents of a page.
type Options struct {
	Title string `flag:"title" help:"title of the page, such as the name of the data (default: the name of the plan, or the run id)"`
	// OwnSamples is the time for samples as in [inspect.Options], in seconds of processors; 0
	// for none, so that the page is a function of the directory.
	OwnSamples float64
}

// Run is a run directory with its verdict.
type Run struct {
	inspect.Report
	Baseline *planner.Beside // DP-SGD for the same claim; nil if there is none to compare with
}

// Read inspects a run directory and reads the contents of its page. It returns an error if there is
// nothing to inspect; the faults of a run are in its verdict.
func Read(ctx context.Context, dir string, o Options) (*Run, error) {
	found, err := inspect.Directory(ctx, dir, inspect.Options{OwnSamples: o.OwnSamples})
	if err != nil {
		return nil, err
	}
	r := &Run{Report: found}
	r.Baseline = r.baseline()
	return r, ctx.Err()
}

// protected says whom the certificate protects, with the data's own nouns.
func (r *Run) protected() string {
	return r.Certificate.Unit.Protected(r.Certificate.Run, r.Nouns())
}

// sound reports whether no check of the directory is broken. Long computations are for such
// directories only.
func (r *Run) sound() bool { return r.State != inspect.StateBroken }

// proven reports whether the claim of the run is proven: its certificate is verified, and no check
// is broken.
func (r *Run) proven() bool {
	return r.Certificate != nil && r.Certificate.Status == accounting.Verified && r.sound()
}

// ofOwners reports whether owners take part in place of examples.
func (r *Run) ofOwners() bool { return r.Scheme != nil && r.Scheme.Owners != nil }

// participant returns the word for one participant.
func (r *Run) participant() string {
	if r.ofOwners() {
		return "owner"
	}
	return "example"
}

// population returns the examples from which a step draws: of a table with pools one pool's, and
// numbered ones if no table tells of owners.
func (r *Run) population() sampling.Population {
	if r.Bounded != nil {
		return stages.PopulationOf(*r.Bounded)
	}
	of := sampling.Population{}
	switch {
	case r.Certificate != nil:
		of.Examples = r.Certificate.Run.Examples
	case r.Batches != nil:
		of.Examples = r.Batches.Examples
	}
	of.Owners = sampling.OwnerSizes{1: of.Examples}
	return of
}

// drawn returns the number of examples from which a step draws, or of owners.
func (r *Run) drawn() int64 {
	if of := r.population(); !r.ofOwners() {
		return of.Examples
	} else {
		return of.Owners.Total()
	}
}

// batchSize returns the expected batch size, 0 if it is not known.
func (r *Run) batchSize() float64 {
	switch {
	case r.Batches != nil:
		return r.Batches.ExpectedBatchSize
	case r.Scheme == nil:
		return 0
	}
	return r.Scheme.ExpectedBatchSize(r.population())
}

// baseline compares a run with DP-SGD, by its workload. It returns nil if the run has no certificate,
// or if no DP-SGD has its claim.
func (r *Run) baseline() *planner.Beside {
	if r.State == inspect.StateBroken {
		return nil
	}
	return planner.BesideDPSGD(r.Certificate, r.drawn(), r.batchSize(), r.workload())
}

// workload returns the workload by which the noise of a run is measured: the workload of its plan,
// so that the page agrees with minsep plan, or prefix sums if there is no plan or its learning
// rates are of a file.
func (r *Run) workload() mechanism.Params {
	if r.Info == nil || r.Info.Plan == nil {
		return mechanism.Params{}
	}
	plan, err := stages.ParsePlan(manifest.RunName, r.Info.Plan.Plan)
	if err != nil || plan.Strategy.ScheduleFile() != "" {
		return mechanism.Params{}
	}
	return mechanism.Params{Training: plan.Strategy.Training}
}

// noiseBy returns the noise relative to the batch by a workload and an objective, NaN if it is not
// known.
func (r *Run) noiseBy(workload mechanism.Params, objective string) float64 {
	c, batch := r.Certificate, r.batchSize()
	if c == nil || batch == 0 {
		return math.NaN()
	}
	return c.NoiseMultiplier * planner.Error(c.Run.Strategy, workload, objective) / batch
}

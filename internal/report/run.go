package report

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"time"

	"minsep/internal/accounting"
	"minsep/internal/inspect"
	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/ownergraph"
	"minsep/internal/planner"
	"minsep/internal/stages"
	"minsep/internal/statistics"
	"minsep/internal/store"
	"minsep/internal/words"
	"minsep/mechanism"
	"minsep/privacy"
	"minsep/sampling"
)

// Options choose the contents of a page.
type Options struct {
	ShowSecret bool      `flag:"show-secret" help:"also show realised batch sizes and participation counts"`                                  // realised batch sizes and participation counts too
	Title      string    `flag:"title" help:"title of the page, such as the name of the data (default: the name of the plan, or the run id)"` // of the page, such as the data's name; "" for the plan's name or else the run id
	Now        time.Time // when the page is made; zero for not saying so
	// OwnSamples is the time for samples as [inspect.Resample] draws them, in seconds of processors; 0
	// for none, so that the page is a function of the directory.
	OwnSamples float64
}

// Run has the contents of a run directory, as far as they could be read. A field without a source
// in the directory is nil.
type Run struct {
	Dir    string         // as it was given
	Report inspect.Report // with its verdict; Realized of its folders is secret

	Info        *manifest.Run           // run.json
	Nouns       words.Nouns             // of run.json
	Certificate *accounting.Certificate // of certificate.json, or of accounting.json, with a status that says that nothing is proven
	Bounded     *ownergraph.Summary
	Batches     *manifest.BatchesFacts
	Scheme      *sampling.Spec    // of the batches or, else, of the certificate
	Noise       *noise.Params     // of the recipe
	Statistics  []privacy.Release // released beside the training
	Baseline    *Baseline         // DP-SGD for the same claim; nil where there is none to compare with
}

// Read inspects a run directory and reads the contents of its page. It returns an error if there is
// nothing to inspect; the faults of a run are in its verdict.
func Read(ctx context.Context, dir string, o Options) (*Run, error) {
	// A file that cannot be read is left out of the page, which must not happen to files that an
	// object store only failed to give: such failures end the command.
	ctx, failures := store.WatchFailures(ctx)
	found, err := inspect.Directory(ctx, dir)
	if err != nil {
		return nil, err
	}
	if o.OwnSamples > 0 {
		own, err := inspect.Resample(ctx, dir, o.OwnSamples)
		if err != nil {
			return nil, err
		}
		if own != nil {
			found = append(found, *own)
		}
	}
	r := &Run{Dir: dir, Report: inspect.Judge(found)}
	if r.Report.Taken, err = inspect.ReadTaken(ctx, dir); err != nil {
		return nil, err
	}
	// Taken out here, so that no section can show them by mistake.
	if !o.ShowSecret {
		for i := range r.Report.Folders {
			r.Report.Folders[i].Realized = nil
		}
	}
	if info, err := manifest.ReadRun(ctx, dir); err == nil {
		r.Info, r.Nouns = &info, info.Nouns
	}
	if c, err := stages.ReadCertificate(ctx, dir); err == nil {
		// The claim is about this sampler; the folders beside it may hold others, which the verdict says.
		r.Certificate, r.Scheme = c, &c.Run.Sampler
	}
	if b, err := manifest.OpenBounded(ctx, store.Join(dir, manifest.BoundedFolder)); err == nil {
		r.Bounded = &b.Summary
	}
	if b, err := manifest.OpenBatches(ctx, store.Join(dir, manifest.BatchesFolder)); err == nil {
		var p manifest.BatchesParams
		if json.Unmarshal(b.Index.Params, &p) == nil && p.Scheme.Validate() == nil {
			// Figures of participations are for the batches that the trainer reads.
			r.Batches, r.Scheme = &b.Facts, &p.Scheme
		}
	}
	if all, err := statistics.All(ctx, dir); err == nil { // otherwise the verdict says so
		r.Statistics = all
	}
	if recipe, err := stages.ReadRecipe(ctx, store.Join(dir, manifest.NoiseFolder, manifest.RecipeFile)); err == nil {
		r.Noise = &recipe.Params
	}
	r.Baseline = r.baseline(ctx)
	return r, errors.Join(ctx.Err(), failures.Err())
}

// protected says whom the certificate protects, with the data's own nouns.
func (r *Run) protected() string {
	return r.Certificate.Unit.Protected(r.Certificate.Run, r.Nouns)
}

// sound reports whether no check of the directory is broken. Long computations are for such
// directories only.
func (r *Run) sound() bool { return r.Report.State != inspect.StateBroken }

// realized returns the realised sizes and counts, if they are to be shown.
func (r *Run) realized() *sampling.Realized {
	i := slices.IndexFunc(r.Report.Folders, func(i inspect.Inspection) bool { return i.Realized != nil })
	if i < 0 {
		return nil
	}
	return r.Report.Folders[i].Realized
}

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
	b.BatchSize, err = planner.ClaimOf(c, r.drawn()).SameAs(ctx, beside.Unit, beside.Ratio*beside.Relative)
	if err != nil {
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
	if err != nil || plan.Strategy.WorkloadFile() != "" ||
		plan.Strategy.Workload == "" && plan.Strategy.Training == (mechanism.Training{}) {
		return mechanism.Params{}
	}
	return mechanism.Params{Workload: plan.Strategy.Workload, Training: plan.Strategy.Training}
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

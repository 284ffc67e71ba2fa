package pipelines

import (
	"context"
	"encoding/json"
	"errors"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/adopt"
	"minsep/internal/manifest"
	"minsep/internal/param"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/transforms/formation"
	"minsep/internal/transforms/manifestio"
	"minsep/internal/transforms/progress"
	"minsep/transforms"
)

// Form is the forming of batches with the parameters of [stages.Form].
type Form stages.Form

// Validate reports every fault that can be seen without the examples.
func (f Form) Validate() error { return stages.Form(f).Validate() }

// init registers the stage for plans.
func init() {
	inPlans["form"] = InPlan{
		Run: func(ctx context.Context, p stages.Plan, o Options, _ *Figures) error {
			_, err := Form(stages.FormOf(p)).Run(ctx, o)
			return err
		},
		Report: func(ctx context.Context, p stages.Plan, to *Figures) error {
			f, _, err := stages.FormOf(p).Planned(ctx)
			if err != nil {
				return err
			}
			to.Examples, to.Copies, to.ExpectedBatchSize = f.Examples, f.Copies, f.ExpectedBatchSize
			to.Owners, to.ExpectedExamples = f.Owners, f.ExpectedExamples
			return nil
		},
	}
}

// Run forms the batches.
func (f Form) Run(ctx context.Context, o Options) (stages.FormResult, error) {
	w, err := o.begin(
		ctx,
		beginning{
			stage:  f,
			key:    true,
			looks:  true,
			remade: manifest.BatchesFolder,
			inputs: func(c *param.Checker) { o.validateInput(c, "bounded", f.Bounded) },
		},
	)
	if err != nil {
		return stages.FormResult{}, err
	}
	defer w.end()
	formed, source, err := stages.Form(f).Planned(ctx)
	if err != nil {
		return stages.FormResult{}, err
	}
	formed.Out = o.Out
	if err := w.jobs.checkBundle(formed.Scheme, source.Rows, formed.RowsPerStep()); err != nil {
		return formed, err
	}
	// Refusals come before anything is written, and a dry run has them too.
	if err = w.here.WithBatches(formed.Scheme, source.Examples()).Agree(); err == nil && !o.DryRun {
		err = HasRoom(ctx, o.Out, formed.Bytes(), manifest.BatchesFolder)
	}
	if err != nil {
		return formed, err
	}
	// A run directory must hold the table that its batches are rows of, also where --bounded names
	// another one.
	copyTo, err := w.copyTo(ctx, source)
	out := anew(manifest.BatchesFolder, true, manifest.BatchesParams{Scheme: formed.Scheme})
	if err == nil && o.DryRun {
		err = w.mayWrite(ctx, out)
	}
	if err != nil || o.DryRun {
		return formed, err
	}
	err = w.write(
		out,
		func(run manifest.Run, stage *manifest.Stage) (index manifest.Index, err error) {
			if copyTo != "" {
				if err := manifest.CopyFolder(ctx, source.Table.Dir, copyTo); err != nil {
					return index, err
				}
				// A table without batches beside it would look like the bound of another run.
				defer func() {
					if err != nil {
						err = errors.Join(err, store.RemoveAll(ctx, copyTo))
					}
				}()
			}
			formed.RunID = run.RunID.String()
			if err := manifest.SetExamples(w.path, source.Examples().Identity); err != nil {
				return index, err
			}
			return f.form(ctx, w, source, formed, run, stage)
		},
	)
	return formed, err
}

// form runs the pipeline, and returns the index of the batches.
func (f Form) form(
	ctx context.Context,
	w *work,
	source stages.Source,
	formed stages.FormResult,
	run manifest.Run,
	stage *manifest.Stage,
) (manifest.Index, error) {
	index := manifest.Index{Format: manifest.BatchesFormatOf(formed.Scheme), Inputs: source.Inputs()}
	var err error
	index.Params, index.ParamsSHA256, err = manifest.Params(manifest.BatchesParams{Scheme: formed.Scheme})
	if err != nil {
		return index, err
	}
	dir, err := store.Abs(stage.Dir)
	if err != nil {
		return index, err
	}
	key, err := store.Abs(w.set.KeyFile)
	if err != nil {
		return index, err
	}
	progress.Expect(formation.ExamplesSampled, source.Rows)
	// Workers get the place of the key, and never the key: the graph of a pipeline is shown by
	// runners.
	p, s := beam.NewPipelineWithRoot()
	training := adopt.Training(w.path, key, run.RunID).(*transforms.Training)
	files, err := f.sample(ctx, s, training, source, formed.Shards, w.jobs.workDir, dir)
	if err != nil {
		return index, err
	}
	manifestio.Collect(s, dir, collectedFiles, files)
	if err := w.jobs.run(ctx, p); err != nil {
		return index, err
	}
	if index.Files, err = manifestio.CollectedFiles(dir, collectedFiles); err != nil {
		return index, err
	}
	index.Facts, err = json.Marshal(formed.BatchesFacts)
	return index, err
}

// collectedFiles is the name of the file through which a pipeline tells its launcher which files it
// wrote.
const collectedFiles = "collected-files.json"

// sample adds the sampling of numbers or of a table, and returns the files that it writes in dir.
func (f Form) sample(
	ctx context.Context,
	s beam.Scope,
	t *transforms.Training,
	x stages.Source,
	shards int,
	tempDir, dir string,
) (beam.PCollection, error) {
	examples := transforms.NumberedExamples(t, x.Rows)
	if x.Table != nil {
		var err error
		if examples, err = transforms.ReadTable(ctx, s, t, x.Table.Dir); err != nil {
			return beam.PCollection{}, err
		}
	}
	batches, err := transforms.SampleBatches(
		s,
		transforms.Sampling{
			Params:   f.Params,
			RowsOnly: true,
			Shards:   shards,
			Buckets:  f.Buckets,
			TempDir:  tempDir,
		},
		examples,
	)
	if err != nil {
		return beam.PCollection{}, err
	}
	return batches.Files(s, dir)
}

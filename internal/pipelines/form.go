package pipelines

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/adopt"
	"minsep/internal/manifest"
	"minsep/internal/ownergraph"
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
		Run: func(ctx context.Context, d *stages.Directory, o Options, _ *Figures) error {
			_, err := Form(stages.FormOf(d.Plan)).Run(ctx, o)
			return err
		},
		Report: func(ctx context.Context, d *stages.Directory, to *Figures) error {
			f, _, err := stages.FormOf(d.Plan).Planned(ctx)
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
	ofGraph := len(f.Graph) > 0
	w, err := o.begin(
		ctx,
		beginning{
			stage:  f,
			key:    true,
			looks:  !ofGraph,
			remade: manifest.BatchesFolder,
			inputs: func(c *param.Checker) {
				o.validateInput(c, "bounded", f.Bounded)
				o.validateInput(c, "graph", f.Graph...)
			},
		},
	)
	if err != nil {
		return stages.FormResult{}, err
	}
	defer w.end()
	if ofGraph {
		return f.runGraph(ctx, w)
	}
	formed, source, err := stages.Form(f).Planned(ctx)
	if err != nil {
		return stages.FormResult{}, err
	}
	formed.Out = o.Out
	if err := w.jobs.checkBundle(formed.Scheme, source.Rows, formed.RowsPerStep()); err != nil {
		return formed, err
	}
	// Refusals come before anything is written, and a dry run has them too.
	if err = w.here.AgreesToForm(formed.Scheme, source.Examples()); err == nil && !o.DryRun {
		err = HasRoom(ctx, o.Out, formed.Bytes(f.Parquet), manifest.BatchesFolder)
	}
	if err != nil {
		return formed, err
	}
	// A run directory must hold the table that its batches are rows of, also where --bounded names
	// another one.
	copyTo, err := w.dir.copyTo(ctx, source)
	if err == nil && o.DryRun {
		err = w.dir.mayWrite(ctx, manifest.BatchesFolder)
	}
	if err != nil || o.DryRun {
		return formed, err
	}
	err = w.write(
		anew(manifest.BatchesFolder, true),
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
			if err := manifest.SetExamples(w.dir.path, source.Examples().Identity); err != nil {
				return index, err
			}
			return f.form(ctx, w, source, formed, run, stage)
		},
	)
	return formed, err
}

// runGraph writes the table of a graph with all its examples kept, and forms batches from it.
func (f Form) runGraph(ctx context.Context, w *work) (stages.FormResult, error) {
	table := Bound{
		Graph:   f.Graph,
		Read:    f.Read,
		Bound:   ownergraph.Bound{MaxExamplesPerOwner: math.MaxInt32},
		Buckets: f.Buckets,
	}
	if w.set.DryRun { // the number of examples, which decides the rest, is not known before the graph is read
		_, err := table.Run(ctx, w.set)
		return stages.FormResult{Out: w.set.Out}, errors.Join(err, w.dir.mayWrite(ctx, manifest.BatchesFolder))
	}
	// Both stages below work in the directory that this one has locked.
	o := w.set
	o.Out, o.Held = w.dir.path, w.dir.held
	_, err := manifest.ReadRun(ctx, o.Out)
	made := errors.Is(err, fs.ErrNotExist)
	if table.leftIn(ctx, o.Out) {
		if err := store.RemoveAll(ctx, store.Join(o.Out, manifest.BoundedFolder)); err != nil {
			return stages.FormResult{}, err
		}
	}
	if _, err := table.Run(ctx, o); err != nil {
		return stages.FormResult{}, err
	}
	f.Graph, f.Bounded = nil, o.Out
	formed, err := f.Run(ctx, o)
	if err != nil { // such as a batch size that the graph cannot give
		err = errors.Join(err, store.RemoveAll(ctx, store.Join(o.Out, manifest.BoundedFolder)))
		if made {
			if _, there := manifest.ReadRun(ctx, o.Out); there == nil {
				err = errors.Join(err, manifest.RemoveRun(o.Out))
			}
		}
	}
	return formed, err
}

// leftIn reports whether a run directory has a table of the same bound and nothing that was made from
// it, as a killed run leaves it.
func (b Bound) leftIn(ctx context.Context, out string) bool {
	_, want, err := manifest.Params(b.Bound)
	if err != nil {
		return false
	}
	claim, err := stages.FindClaim(ctx, out)
	if claim != "" || err != nil {
		return false
	}
	for _, folder := range []string{manifest.BatchesFolder, manifest.NoiseFolder} {
		if finished, err := manifest.Finished(ctx, store.Join(out, folder)); finished || err != nil {
			return false
		}
	}
	ix, err := manifest.Read(ctx, store.Join(out, manifest.BoundedFolder))
	return err == nil && ix.ParamsSHA256 == want
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
	training := adopt.Training(w.dir.path, key, run.RunID).(*transforms.Training)
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
	facts := manifest.BatchesFacts{
		Examples:          source.Rows,
		Steps:             formed.Scheme.Scheme().NumSteps(),
		Shards:            formed.Shards,
		RowType:           formation.RowType(source.Rows),
		RowsOf:            source.RowsOf(),
		BatchSize:         formed.PaddedBatchSize(),
		ExpectedBatchSize: &formed.ExpectedBatchSize,
	}
	if o := formed.Scheme.Owners; o != nil {
		facts.Owners, facts.ExamplesPerOwner, facts.ExpectedExamples = formed.Owners, o.ExamplesPerOwner, formed.ExpectedExamples
	}
	index.Facts, err = json.Marshal(facts)
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
			RowsOnly: !f.Parquet,
			Shards:   shards,
			Buckets:  f.Buckets,
			TempDir:  tempDir,
		},
		examples,
	)
	if err != nil {
		return beam.PCollection{}, err
	}
	return batches.Files(s, dir, f.Parquet)
}

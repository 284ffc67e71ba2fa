package pipelines

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"math"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/manifest"
	"minsep/mechanism/noise"
	"minsep/sampling"
	"minsep/sampling/ownergraph"
	"minsep/sampling/stream"
	"minsep/stages"
	"minsep/transforms/formation"
	"minsep/transforms/manifestio"
	"minsep/transforms/progress"
)

// Form is the stage with the parameters of [stages.Form].
type Form stages.Form

// Validate reports every fault that can be seen without the examples.
func (f Form) Validate() error { return stages.Form(f).Validate() }

// Run forms the batches.
func (f Form) Run(ctx context.Context, o Options) (stages.FormResult, error) {
	c := param.Checker{Package: "pipelines"}
	c.Add(f.Validate())
	o.Validate(&c)
	o.validateInput(&c, "bounded", f.Bounded)
	o.validateInput(&c, "graph", f.Graph...)
	if err := c.Err(); err != nil {
		return stages.FormResult{}, err
	}
	if len(f.Graph) > 0 {
		return f.runGraph(ctx, o)
	}
	formed, source, err := stages.Form(f).Planned(ctx)
	if err != nil {
		return stages.FormResult{}, err
	}
	formed.Out = o.Out
	if err := o.checkBundle(formed.Scheme, source.Rows, formed.ExpectedBatchSize); err != nil {
		return formed, err
	}
	if err := o.agreesToForm(ctx, formed, source); err != nil {
		return formed, err
	}
	if err := o.HasRoom(formed.Bytes(f.Parquet), manifest.BatchesFolder); err != nil {
		return formed, err
	}
	copyTo, err := copyTo(ctx, source, o.Out)
	if err == nil && o.DryRun {
		err = o.mayWrite(manifest.BatchesFolder)
	}
	if err != nil || o.DryRun {
		return formed, err
	}
	err = o.write(manifest.BatchesFolder, true, func(run manifest.Run, stage *manifest.Stage) (index manifest.Index, err error) {
		if copyTo != "" && !o.Translates() {
			if err := source.Table.Copy(ctx, copyTo); err != nil {
				return index, err
			}
			defer func() {
				if err != nil {
					err = errors.Join(err, store.RemoveAll(ctx, copyTo))
				}
			}()
		}
		formed.RunID = run.RunID.String()
		if err := manifest.SetExamples(store.Dir(stage.Dir), source.Examples().Identity); err != nil {
			return index, err
		}
		return f.form(ctx, o, source, formed, run, stage)
	})
	return formed, err
}

// agreesToForm refuses batches that do not match what is in the run directory, or what its run id serves.
func (o Options) agreesToForm(ctx context.Context, formed stages.FormResult, source stages.Source) error {
	if err := o.oneTrainingByKey(ctx, manifest.BatchesFolder); err != nil {
		return err
	}
	here, err := o.present(ctx, manifest.BatchesFolder)
	if err != nil {
		return err
	}
	if err := here.AgreesToForm(formed.Scheme, source.Examples()); err != nil {
		return err
	}
	sampler, err := stages.SamplerText(formed.Scheme)
	if err != nil {
		return err
	}
	return o.registered(ctx, noise.Record{Training: noise.Training{Examples: source.Examples().Identity, Sampler: sampler}, Directory: store.Resolved(o.Out)})
}

// copyTo is where a table of another run directory must be copied to, since batches are of no use without the table
// that they number: "" if it is there, or if there is none.
func copyTo(ctx context.Context, x stages.Source, out string) (string, error) {
	if x.Table == nil {
		return "", nil
	}
	dir := store.Join(out, manifest.BoundedFolder)
	switch digest, err := manifest.DigestOf(ctx, dir); {
	case errors.Is(err, fs.ErrNotExist):
		return dir, nil
	case err != nil:
		return "", err
	case digest != x.Table.Digest:
		return "", &ParamError{Package: "pipelines", Param: "out", Value: out, Rule: "holds another bounded table than the one given: give that run directory or another --out"}
	}
	return "", nil
}

// runGraph writes the table of a graph of which all examples are kept, and forms batches of it.
func (f Form) runGraph(ctx context.Context, o Options) (stages.FormResult, error) {
	table := Bound{Graph: f.Graph, Read: f.Read, Bound: ownergraph.Bound{MaxExamplesPerOwner: math.MaxInt32}, Buckets: f.Buckets}
	if o.DryRun { // the number of examples, which decides the rest, is not known before the graph is read
		_, err := table.Run(ctx, o)
		return stages.FormResult{Out: o.Out}, errors.Join(err, o.mayWrite(manifest.BatchesFolder))
	}
	o, unlock, err := o.Lock()
	if err != nil {
		return stages.FormResult{}, err
	}
	defer unlock()
	_, err = manifest.ReadRun(ctx, o.Out)
	made := errors.Is(err, fs.ErrNotExist)
	withTable := o
	withTable.Overwrite = o.Overwrite || table.leftIn(ctx, o.Out)
	if _, err := table.Run(ctx, withTable); err != nil {
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

// leftIn says that a run directory has a table of the same bound and no batches: that of a run that was killed.
func (b Bound) leftIn(ctx context.Context, out string) bool {
	_, want, err := manifest.Params(b.Bound)
	if err != nil {
		return false
	}
	if _, err := manifest.Read(ctx, store.Join(out, manifest.BatchesFolder)); err == nil {
		return false
	}
	ix, err := manifest.Read(ctx, store.Join(out, manifest.BoundedFolder))
	return err == nil && ix.ParamsSHA256 == want
}

func (f Form) form(ctx context.Context, o Options, source stages.Source, formed stages.FormResult, run manifest.Run, stage *manifest.Stage) (manifest.Index, error) {
	index := manifest.Index{Format: manifest.BatchesFormat, Inputs: source.Inputs()}
	var err error
	if index.Params, index.ParamsSHA256, err = manifest.Params(manifest.BatchesParams{Scheme: formed.Scheme}); err != nil {
		return index, err
	}
	root, err := stream.ReadKeyFile(o.KeyFile)
	if err != nil {
		return index, err
	}
	index.Secret = secretOf(root, run.RunID, manifest.BatchesFolder)
	dir, err := store.Abs(stage.Dir)
	if err != nil {
		return index, err
	}
	key, err := store.Abs(o.KeyFile)
	if err != nil {
		return index, err
	}
	config := formation.Config{Spec: formed.Scheme, Examples: source.Rows, Shards: formed.Shards, Dir: dir, Parquet: f.Parquet,
		IDs: idsOf(source), KeyURI: key, RunID: run.RunID, Params: index.ParamsSHA256, Buckets: f.Buckets, TempDir: o.WorkDir}
	progress.Expect(formation.ExamplesSampled, source.Rows)
	p, s := beam.NewPipelineWithRoot()
	files, err := formRows(s, source, config)
	if err != nil {
		return index, err
	}
	manifestio.Collect(s, dir, collectedFiles, files)
	if _, err := o.run(ctx, p); err != nil {
		return index, err
	}
	if index.Files, err = manifestio.CollectedFiles(dir, collectedFiles); err != nil {
		return index, err
	}
	facts := manifest.BatchesFacts{Examples: source.Rows, Steps: formed.Scheme.Scheme().NumSteps(), Shards: formed.Shards, RowType: config.RowType(), RowsOf: source.RowsOf(),
		ExpectedBatchSize: &formed.ExpectedBatchSize}
	if t := formed.Scheme.Truncation; t != nil && t.Pad {
		facts.BatchSize = t.MaxBatchSize
	}
	index.Facts, err = json.Marshal(facts)
	return index, err
}

// collectedFiles is the name of the file through which a pipeline tells its launcher what it wrote.
const collectedFiles = "collected-files.json"

func idsOf(x stages.Source) formation.IDs {
	if x.Table == nil {
		return formation.IDs{} // formation.Range knows
	}
	return formation.IDs{Type: x.Table.ExampleType}
}

func formRows(s beam.Scope, x stages.Source, c formation.Config) (beam.PCollection, error) {
	if x.Table == nil {
		return formation.Range(s, c)
	}
	rows, err := manifestio.ReadBounded(s, x.Table, c.Spec.Kind().Owners != sampling.OwnersIgnored)
	if err != nil {
		return beam.PCollection{}, err
	}
	return formation.Table(s, c, rows)
}

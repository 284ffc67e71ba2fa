package pipelines

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/manifest"
	"minsep/mechanism/noise"
	"minsep/sampling"
	"minsep/sampling/ownergraph"
	"minsep/sampling/ownergraph/graphio"
	"minsep/sampling/stream"
	"minsep/transforms/formation"
	"minsep/transforms/manifestio"
	"minsep/transforms/progress"
)

// Folders of a run directory.
const (
	BoundedFolder = "bounded"
	BatchesFolder = "batches"
)

// Form forms the batches of a training: run directory in, run/batches out. The examples are those of a bounded table, or the
// numbers 0 to Examples-1, each its own owner.
type Form struct {
	sampling.Params
	Bounded  string          // run directory or folder of a bounded table; or
	Graph    []string        // a graph, which is not bounded but only written as a table to run/bounded; or
	Read     graphio.Options // how to read it
	Examples int64           // this many examples

	// What follows does not change the batches.

	Shards  int  // of the files; 0 for as many as the expected size calls for
	Parquet bool // write (step, slot, example_id) besides
	Buckets int  // of the shuffle by owner; 0 for as many as the size calls for
}

// formParams are the parameters that batches depend on, with the key and the examples: what the index holds and the keys are derived with.
type formParams struct {
	Scheme sampling.Spec `json:"scheme"`
}

// Formed is what there is to say of formed batches. All of it is public: it follows from the parameters.
type Formed struct {
	RunID             string        `json:"run_id,omitempty"` // none after a dry run
	Out               string        `json:"out"`
	Scheme            sampling.Spec `json:"scheme"`
	Examples          int64         `json:"examples"` // rows; 0 after a dry run on a graph, as all that follows
	Copies            int64         `json:"copies"`   // of them
	ExpectedBatchSize float64       `json:"expected_batch_size"`
	Shards            int           `json:"shards"`
}

// Validate reports every fault that can be seen without the examples.
func (f Form) Validate() error {
	c := param.Checker{Package: "pipelines"}
	c.Add(f.Params.Validate())
	given := 0
	for _, is := range []bool{f.Bounded != "", len(f.Graph) > 0, f.Examples != 0} {
		if is {
			given++
		}
	}
	c.Require(given == 1, "bounded, graph and examples", nil, "exactly one of them must be given")
	c.Require(f.Examples >= 0, "examples", f.Examples, "must be at least 1")
	c.Require(f.Kind().Owners != sampling.OwnersNeeded || f.Examples == 0, "scheme", f.Scheme, "needs a graph, which says who owns what")
	c.Require(f.Shards >= 0 && (f.Shards <= f.Steps || f.Steps < 1), "shards", f.Shards, fmt.Sprintf("must be 1 to %d, the steps: a shard holds whole steps", max(1, f.Steps)))
	c.Require(f.Buckets >= 0, "buckets", f.Buckets, "must be at least 1")
	return c.Err()
}

// Run forms the batches.
func (f Form) Run(ctx context.Context, o Options) (Formed, error) {
	c := param.Checker{Package: "pipelines"}
	c.Add(f.Validate())
	o.validate(&c)
	o.validateInput(&c, "bounded", f.Bounded)
	o.validateInput(&c, "graph", f.Graph...)
	if err := c.Err(); err != nil {
		return Formed{}, err
	}
	if len(f.Graph) > 0 {
		return f.runGraph(ctx, o)
	}
	formed, source, err := f.planned(ctx)
	if err != nil {
		return Formed{}, err
	}
	formed.Out = o.Out
	if err := o.checkBundle(formed.Scheme, source.rows, formed.ExpectedBatchSize); err != nil {
		return formed, err
	}
	if err := o.agreesToForm(ctx, formed, source); err != nil {
		return formed, err
	}
	copyTo, err := source.copyTo(ctx, o.Out)
	if err == nil && o.DryRun {
		err = o.mayWrite(BatchesFolder)
	}
	if err != nil || o.DryRun {
		return formed, err
	}
	err = o.write(BatchesFolder, true, func(run manifest.Run, stage *manifest.Stage) (index manifest.Index, err error) {
		if copyTo != "" && !o.translates() {
			if err := source.bounded.Copy(ctx, copyTo); err != nil {
				return index, err
			}
			defer func() {
				if err != nil {
					err = errors.Join(err, store.RemoveAll(ctx, copyTo))
				}
			}()
		}
		formed.RunID = run.RunID.String()
		if err := manifest.SetExamples(store.Dir(stage.Dir), source.of().identity); err != nil {
			return index, err
		}
		return f.form(ctx, o, source, formed, run, stage)
	})
	return formed, err
}

// agreesToForm refuses batches that do not match what is in the run directory, or what its run id serves.
func (o Options) agreesToForm(ctx context.Context, formed Formed, source examples) error {
	if err := o.oneTrainingByKey(ctx, BatchesFolder); err != nil {
		return err
	}
	here, err := o.present(ctx, BatchesFolder)
	if err != nil {
		return err
	}
	if err := here.agreesToForm(formed.Scheme, source.of()); err != nil {
		return err
	}
	sampler, err := samplerText(formed.Scheme)
	if err != nil {
		return err
	}
	return o.registered(ctx, noise.Record{Training: noise.Training{Examples: source.of().identity, Sampler: sampler}, Directory: realPath(o.Out)})
}

// planned is what there is to say before any batch is formed of numbers or of a bounded table.
func (f Form) planned(ctx context.Context) (Formed, examples, error) {
	source, err := f.source(ctx)
	if err != nil {
		return Formed{}, source, err
	}
	spec, err := f.Spec(source.population())
	if err != nil {
		return Formed{}, source, err
	}
	formed := Formed{Scheme: spec, Examples: source.rows, Copies: source.population().Examples, ExpectedBatchSize: spec.ExpectedBatchSize(source.population())}
	formed.Shards = f.Shards
	if f.Shards == 0 {
		formed.Shards = formation.Shards(spec.DrawnPerStep(source.population())*float64(spec.Scheme().NumSteps()), spec.Scheme().NumSteps())
	}
	return formed, source, nil
}

// copyTo is where a table of another run directory must be copied to, since batches are of no use without the table
// that they number: "" if it is there, or if there is none.
func (x examples) copyTo(ctx context.Context, out string) (string, error) {
	if x.bounded == nil {
		return "", nil
	}
	dir := store.Join(out, BoundedFolder)
	switch digest, err := manifest.DigestOf(ctx, dir); {
	case errors.Is(err, fs.ErrNotExist):
		return dir, nil
	case err != nil:
		return "", err
	case digest != x.bounded.Digest:
		return "", &ParamError{Package: "pipelines", Param: "out", Value: out, Rule: "holds another bounded table than the one given: give that run directory or another --out"}
	}
	return "", nil
}

// runGraph writes the table of a graph of which all examples are kept, and forms batches of it.
func (f Form) runGraph(ctx context.Context, o Options) (Formed, error) {
	table := Bound{Graph: f.Graph, Read: f.Read, Bound: ownergraph.Bound{MaxExamplesPerOwner: math.MaxInt32}, Buckets: f.Buckets}
	if o.DryRun { // the number of examples, which decides the rest, is not known before the graph is read
		_, err := table.Run(ctx, o)
		return Formed{Out: o.Out}, errors.Join(err, o.mayWrite(BatchesFolder))
	}
	o, unlock, err := o.lock()
	if err != nil {
		return Formed{}, err
	}
	defer unlock()
	_, err = manifest.ReadRun(ctx, o.Out)
	made := errors.Is(err, fs.ErrNotExist)
	withTable := o
	withTable.Overwrite = o.Overwrite || table.leftIn(ctx, o.Out)
	if _, err := table.Run(ctx, withTable); err != nil {
		return Formed{}, err
	}
	f.Graph, f.Bounded = nil, o.Out
	formed, err := f.Run(ctx, o)
	if err != nil { // such as a batch size that the graph cannot give
		err = errors.Join(err, store.RemoveAll(ctx, store.Join(o.Out, BoundedFolder)))
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
	if _, err := manifest.Read(ctx, store.Join(out, BatchesFolder)); err == nil {
		return false
	}
	ix, err := manifest.Read(ctx, store.Join(out, BoundedFolder))
	return err == nil && ix.ParamsSHA256 == want
}

func (f Form) form(ctx context.Context, o Options, source examples, formed Formed, run manifest.Run, stage *manifest.Stage) (manifest.Index, error) {
	index := manifest.Index{Format: manifest.BatchesFormat, Inputs: source.inputs()}
	var err error
	if index.Params, index.ParamsSHA256, err = manifest.Params(formParams{formed.Scheme}); err != nil {
		return index, err
	}
	root, err := stream.ReadKeyFile(o.KeyFile)
	if err != nil {
		return index, err
	}
	index.Secret = secretOf(root, run.RunID, BatchesFolder)
	dir, err := store.Abs(stage.Dir)
	if err != nil {
		return index, err
	}
	key, err := store.Abs(o.KeyFile)
	if err != nil {
		return index, err
	}
	config := formation.Config{Spec: formed.Scheme, Examples: source.rows, Shards: formed.Shards, Dir: dir, Parquet: f.Parquet,
		IDs: source.ids(), KeyURI: key, RunID: run.RunID, Params: index.ParamsSHA256, Buckets: f.Buckets, TempDir: o.WorkDir}
	progress.Expect(formation.ExamplesSampled, source.rows)
	p, s := beam.NewPipelineWithRoot()
	files, err := source.form(s, config)
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
	facts := manifest.BatchesFacts{Examples: source.rows, Steps: formed.Scheme.Scheme().NumSteps(), Shards: formed.Shards, RowType: config.RowType(), RowsOf: source.rowsOf(),
		ExpectedBatchSize: &formed.ExpectedBatchSize}
	if t := formed.Scheme.Truncation; t != nil && t.Pad {
		facts.BatchSize = t.MaxBatchSize
	}
	index.Facts, err = json.Marshal(facts)
	return index, err
}

// collectedFiles is the name of the file through which a pipeline tells its launcher what it wrote.
const collectedFiles = "collected-files.json"

// examples are what batches are formed of: a bounded table, or numbers.
type examples struct {
	rows    int64
	bounded *manifest.Bounded // nil: numbers
}

func (f Form) source(ctx context.Context) (examples, error) {
	if f.Bounded == "" {
		return examples{rows: f.Examples}, nil
	}
	b, err := openBounded(ctx, f.Bounded)
	if err != nil {
		return examples{}, err
	}
	if b.Rows == 0 {
		return examples{}, &ParamError{Package: "pipelines", Param: "bounded", Value: f.Bounded, Rule: "has no examples"}
	}
	return examples{rows: b.Rows, bounded: b}, nil
}

// openBounded opens the bounded table of a run directory, or a folder that is one.
func openBounded(ctx context.Context, dir string) (*manifest.Bounded, error) {
	b, err := manifest.OpenBounded(ctx, store.Join(dir, BoundedFolder))
	if err == nil {
		return b, nil
	}
	if inFolder, errFolder := manifest.OpenBounded(ctx, dir); errFolder == nil {
		return inFolder, nil
	}
	return nil, err
}

func (x examples) population() sampling.Population {
	if x.bounded == nil {
		return sampling.Population{Examples: x.rows, Neighborhoods: sampling.Neighborhoods{1: x.rows}}
	}
	hood := make(sampling.Neighborhoods)
	for _, bin := range x.bounded.Summary.Neighborhoods {
		hood[int(bin.Value)] = bin.Count
	}
	return sampling.Population{Examples: x.bounded.Summary.KeptCopies, Neighborhoods: hood}
}

func (x examples) inputs() map[string]manifest.Digest {
	if x.bounded == nil {
		return nil
	}
	return map[string]manifest.Digest{BoundedFolder: x.bounded.Digest}
}

func (x examples) ids() formation.IDs {
	if x.bounded == nil {
		return formation.IDs{} // formation.Range knows
	}
	return formation.IDs{Type: x.bounded.ExampleType}
}

func (x examples) rowsOf() string {
	if x.bounded == nil {
		return manifest.RowsOfRange
	}
	return manifest.RowsOfBounded
}

func (x examples) form(s beam.Scope, c formation.Config) (beam.PCollection, error) {
	if x.bounded == nil {
		return formation.Range(s, c)
	}
	rows, err := manifestio.ReadBounded(s, x.bounded, c.Spec.Kind().Owners != sampling.OwnersIgnored)
	if err != nil {
		return beam.PCollection{}, err
	}
	return formation.Table(s, c, rows)
}

package pipelines

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/manifest"
	"minsep/sampling"
	"minsep/sampling/ownergraph"
	"minsep/sampling/stream"
	"minsep/stages"
	"minsep/transforms/manifestio"
	"minsep/transforms/materialize"
	"minsep/transforms/progress"
)

// Materialize is the writing of examples with the parameters of [stages.Materialize]. The run
// directory is [Options.Out], and has the batches.
type Materialize stages.Materialize

// Validate reports every fault that can be seen without the batches and the examples.
func (m Materialize) Validate() error { return stages.Materialize(m).Validate() }

// init registers the stage for plans.
func init() {
	inPlans["materialize"] = InPlan{
		Run: func(ctx context.Context, d *stages.Directory, o Options, _ *Figures) error {
			_, err := Materialize(d.Plan.MaterializeParams()).Run(ctx, o)
			return err
		},
		Look: func(ctx context.Context, p stages.Plan) error {
			return Materialize(p.MaterializeParams()).Look(ctx, p.Scheme.Sample == sampling.SampleOwners)
		},
	}
}

// MaterializeResult describes examples in the order of the steps. All of it is public: the number
// of entries is secret, and here only its expectation.
type MaterializeResult struct {
	RunID   string   `json:"run_id"`
	Out     string   `json:"out"`              // run directory
	Files   int      `json:"files"`            // of the data, at least 1
	Rows    int64    `json:"rows"`             // of the data, at least 0
	Columns []string `json:"columns"`          // of the data
	Steps   int      `json:"steps"`            // at least 1
	Shards  int      `json:"shards"`           // of the files that are written, at least 1
	Pad     int      `json:"pad,omitempty"`    // every step has a multiple of so many entries; 0: no padding
	Entries float64  `json:"expected_entries"` // without padding, before a maximum batch size cuts steps
	Bytes   int64    `json:"expected_bytes"`   // of the entries, before compression
}

// join is a materialization that has been planned.
type join struct {
	batches *manifest.Batches
	digest  manifest.Digest // of the index of the batches
	table   string          // folder of the bounded table; "" where rows are the ids
	data    *materialize.Source
}

// Run joins examples and batches. After an interruption or on a full disk the folder stays
// unfinished, so that the same call goes on with the missing files. After any other failure it is
// as empty as before.
func (m Materialize) Run(ctx context.Context, o Options) (MaterializeResult, error) {
	w, err := o.begin(ctx, beginning{stage: m, key: true, looks: true, inputs: func(c *param.Checker) {
		o.validateInput(c, "examples", m.Examples...)
	}})
	if err != nil {
		return MaterializeResult{}, err
	}
	defer w.end()
	if err := w.inPlace(ctx); err != nil {
		return MaterializeResult{}, err
	}
	j, err := m.open(ctx, w)
	if err != nil {
		return MaterializeResult{}, err
	}
	progress.Expect(materialize.DataRead, j.data.Rows)
	result := m.result(w, j)
	if o.DryRun {
		return result, w.dir.mayWrite(ctx, manifest.MaterializedFolder)
	}
	if err := HasRoom(ctx, o.Out, 2*result.Bytes, manifest.MaterializedFolder); err != nil {
		return result, err
	}
	if err := m.compare(ctx, w, j, result); err != nil {
		return result, err
	}
	out := output{
		folder: manifest.MaterializedFolder, secret: true,
		resume: func(run manifest.Run) (same manifest.Digest, err error) {
			_, same, err = manifest.Params(struct {
				Run     string
				Batches manifest.Digest
				Params  manifest.MaterializedParams
				Shards  int
				Data    []materialize.Split
			}{run.RunID.String(), j.digest, m.params(), result.Shards, j.data.Splits})
			return same, err
		},
		kept: func(err error) bool { return ctx.Err() != nil || isFull(err) },
		full: "the finished files stay; make room and repeat the command, which goes on from there",
	}
	err = w.write(out, func(run manifest.Run, stage *manifest.Stage) (manifest.Index, error) {
		return m.write(ctx, w, j, result, run, stage)
	})
	return result, err
}

// params returns the parameters on which the files depend.
func (m Materialize) params() manifest.MaterializedParams { return stages.Materialize(m).FilesParams() }

// Look opens the examples, and refuses files that cannot be used whatever the ids of the run's
// examples are. It is called before the ids are known.
func (m Materialize) Look(ctx context.Context, owners bool) error {
	_, err := m.data(ctx, ownergraph.String, owners)
	return err
}

// data opens the examples. Their faults become an inputError.
func (m Materialize) data(ctx context.Context, ids ownergraph.IDType, owners bool) (*materialize.Source, error) {
	data := materialize.Data{Paths: m.Examples, IDColumn: stages.Materialize(m).Column(), ByName: m.ByName, IDs: ids, Owners: owners}
	source, err := data.Open(ctx)
	if err != nil {
		var faults []string
		collectFaults(err, &faults)
		if faults == nil {
			return nil, err
		}
		return nil, &inputError{faults}
	}
	return source, nil
}

// open opens batches and data.
func (m Materialize) open(ctx context.Context, w *work) (*join, error) {
	dir := store.Join(w.set.Out, manifest.BatchesFolder)
	finished, err := manifest.Finished(ctx, dir)
	if err != nil {
		return nil, err
	}
	if !finished {
		return nil, &ParamError{Package: "pipelines", Param: "run", Value: w.set.Out, Rule: "must be a run directory with batches: minsep form makes them"}
	}
	j := new(join)
	if j.batches, err = manifest.OpenBatches(ctx, dir); err != nil {
		return nil, err
	}
	if j.digest, err = manifest.DigestOf(ctx, dir); err != nil {
		return nil, err
	}
	if err := j.batches.Index.Verify(ctx, dir); err != nil {
		return nil, err
	}
	ids := ownergraph.Int64
	if formedOf, ofTable := j.batches.Index.Inputs[manifest.BoundedFolder]; ofTable {
		j.table = store.Join(w.set.Out, manifest.BoundedFolder)
		table, err := manifest.OpenBounded(ctx, j.table)
		if err != nil {
			return nil, err
		}
		if table.Digest != formedOf {
			return nil, stages.Disagrees(dir, []string{"they were formed of another bounded table than the one beside them"}, "run minsep form --overwrite first")
		}
		ids = table.ExampleType
	}
	if j.data, err = m.data(ctx, ids, j.batches.OfOwners()); err != nil {
		return nil, err
	}
	if steps := j.batches.Facts.Steps; m.Shards > steps {
		return nil, &ParamError{Package: "pipelines", Param: "shards", Value: m.Shards, Rule: fmt.Sprintf("must be at most the number of steps, %d", steps)}
	}
	return j, nil
}

// shardBytes is the intended size of the rows of a file, before compression: they are sorted in
// memory.
const shardBytes = 128 << 20

// result describes the join.
func (m Materialize) result(w *work, j *join) MaterializeResult {
	facts := j.batches.Facts
	r := MaterializeResult{RunID: j.batches.Index.RunID.String(), Out: w.set.Out, Files: j.data.Files, Rows: j.data.Rows, Columns: j.data.Columns,
		Steps: facts.Steps, Shards: m.Shards, Pad: m.Pad}
	switch {
	case facts.ExpectedExamples > 0:
		r.Entries = facts.ExpectedExamples * float64(facts.Steps)
	case facts.ExpectedBatchSize != nil:
		r.Entries = *facts.ExpectedBatchSize * float64(facts.Steps)
	}
	r.Bytes = int64(r.Entries * float64(j.data.Bytes) / float64(max(1, j.data.Rows)))
	if r.Shards == 0 {
		r.Shards = int(min(int64(facts.Steps), r.Bytes/shardBytes+1))
	}
	return r
}

// compare refuses data that lack examples, or have some twice. It comes before a finished result is
// removed to make room for the new one.
func (m Materialize) compare(ctx context.Context, w *work, j *join, r MaterializeResult) error {
	dir := store.Join(w.dir.path, manifest.MaterializedFolder)
	if !w.dir.overwrite {
		return nil
	}
	if finished, err := manifest.Finished(ctx, dir); err != nil || !finished {
		return err
	}
	_, params, err := manifest.Params(m.params())
	if err != nil {
		return err
	}
	progress.Expect(materialize.DataRead, 2*j.data.Rows) // once more when they are joined
	err = w.joins(ctx, j, m.config(j, r, j.batches.Index.RunID, params), dir, materialize.Compare)
	if err != nil {
		err = withoutRoom(err, dir, "the finished result stays; make room and repeat the command")
	}
	return err
}

// config returns the configuration of a join; [work.joins] sets the places.
func (m Materialize) config(j *join, r MaterializeResult, run stream.RunID, params manifest.Digest) materialize.Config {
	return materialize.Config{Shards: r.Shards, Pad: m.Pad, IDColumn: stages.Materialize(m).Column(), RunID: run, Params: orderParams(params, j.digest)}
}

// write writes the files that are missing, and returns the index.
func (m Materialize) write(ctx context.Context, w *work, j *join, r MaterializeResult, run manifest.Run, stage *manifest.Stage) (index manifest.Index, err error) {
	index = manifest.Index{Format: manifest.MaterializedFormat, Inputs: map[string]manifest.Digest{manifest.BatchesFolder: j.digest}}
	if index.Params, index.ParamsSHA256, err = manifest.Params(m.params()); err != nil {
		return index, err
	}
	index.Facts, err = json.Marshal(manifest.MaterializedFacts{Steps: r.Steps, Shards: r.Shards, Owners: j.batches.OfOwners(), Columns: r.Columns})
	if err != nil {
		return index, err
	}
	var done []int
	if done, index.Files, err = materialize.Finished(ctx, stage.Dir, r.Shards); err != nil || len(done) == r.Shards {
		return index, err
	}
	c := m.config(j, r, run.RunID, index.ParamsSHA256)
	c.Done = done
	err = w.joins(ctx, j, c, stage.Dir, func(s beam.Scope, c materialize.Config, data *materialize.Source) error {
		lines, err := materialize.Write(s, c, data)
		if err == nil {
			manifestio.Collect(s, c.Dir, collectedFiles, lines)
		}
		return err
	})
	if err != nil {
		return index, err
	}
	written, err := manifestio.CollectedFiles(stage.Dir, collectedFiles)
	index.Files = append(index.Files, written...)
	return index, err
}

// orderParams returns the digest on which the key of the order within steps depends: other batches
// have another order.
func orderParams(params, batches manifest.Digest) manifest.Digest {
	_, digest, err := manifest.Params([]manifest.Digest{params, batches})
	if err != nil { // digests are text
		panic(err)
	}
	return digest
}

// joins runs a pipeline over the data, with files in dir. It sets the fields of c that name places.
func (w *work) joins(ctx context.Context, j *join, c materialize.Config, dir string, build func(beam.Scope, materialize.Config, *materialize.Source) error) error {
	for _, at := range []struct {
		to   *string
		path string
	}{{&c.Dir, dir}, {&c.KeyURI, w.set.KeyFile}, {&c.Batches, j.batches.Dir}, {&c.Table, j.table}} {
		if at.path == "" {
			continue
		}
		var err error
		if *at.to, err = store.Abs(at.path); err != nil {
			return err
		}
	}
	c.TempDir, c.SharedDir = w.jobs.workDir, store.Join(c.Dir, store.TempPrefix+"shared")
	removeShared := func() error { return store.RemoveAll(context.WithoutCancel(ctx), c.SharedDir) }
	if err := removeShared(); err != nil { // of a job that was killed
		return err
	}
	if err := store.MkdirAll(ctx, c.SharedDir, manifest.SecretDir); err != nil {
		return err
	}
	defer removeShared()
	p, s := beam.NewPipelineWithRoot()
	if err := build(s, c, j.data); err != nil {
		return err
	}
	if err := w.jobs.run(ctx, p); err != nil {
		return err
	}
	return removeShared()
}

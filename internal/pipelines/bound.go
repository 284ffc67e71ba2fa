package pipelines

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/adopt"
	"minsep/internal/graphio"
	"minsep/internal/manifest"
	"minsep/internal/ondisk"
	"minsep/internal/ownergraph"
	"minsep/internal/param"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/stream"
	"minsep/internal/transforms/manifestio"
	"minsep/internal/transforms/progress"
	"minsep/transforms"
)

// Bound is the bound with the parameters of [stages.Bound].
type Bound stages.Bound

// Validate reports every fault that can be seen without the graph.
func (b Bound) Validate() error { return stages.Bound(b).Validate() }

// init registers the stage for plans.
func init() {
	inPlans["bound"] = InPlan{
		Run: func(ctx context.Context, p stages.Plan, o Options, _ *Figures) error {
			_, err := Bound(stages.BoundOf(p)).Run(ctx, o)
			return err
		},
		Report: func(ctx context.Context, p stages.Plan, to *Figures) error {
			b, err := manifest.OpenBounded(ctx, store.Join(p.Out, manifest.BoundedFolder))
			if err != nil {
				return err
			}
			to.Examples, to.Copies = b.Rows, b.Summary.KeptCopies
			to.Kept = stages.KeptText(b.Summary, stages.BoundOf(p).Bound)
			to.owners = b.Summary.Owners - b.Summary.KeptPerOwner.Of(0)
			return nil
		},
	}
}

// BoundResult describes a bounded graph. The graph is public, and so is this.
type BoundResult struct {
	RunID   string             `json:"run_id,omitempty"` // none after a dry run
	Out     string             `json:"out"`              // run directory
	Input   BoundInput         `json:"input"`            // the graph's files
	Summary ownergraph.Summary `json:"summary,omitzero"` // none after a dry run
}

// BoundInput holds the facts of a graph's files that are known without reading them through.
type BoundInput struct {
	Files       int    `json:"files"`        // at least 1
	Bytes       int64  `json:"bytes"`        // as stored
	ExampleType string `json:"example_type"` // int64 or string
	OwnerType   string `json:"owner_type"`   // int64 or string
}

// Run bounds the graph.
func (b Bound) Run(ctx context.Context, o Options) (BoundResult, error) {
	var source *graphio.Source
	w, err := o.begin(
		ctx,
		beginning{
			stage:  b,
			key:    true,
			looks:  true,
			remade: manifest.BoundedFolder,
			inputs: func(c *param.Checker) { source = b.open(ctx, o, c) },
		},
	)
	if err != nil {
		return BoundResult{}, err
	}
	defer w.end()
	return b.write(ctx, w, source)
}

// open opens the graph, and records its faults; nil after any.
func (b Bound) open(ctx context.Context, o Options, c *param.Checker) *graphio.Source {
	o.validateInput(c, "graph", b.Graph...)
	if len(b.Graph) == 0 || b.Read.Validate() != nil {
		return nil
	}
	source, err := graphio.Open(ctx, b.Graph, b.Read)
	c.Add(err)
	// A plan is checked as a whole before its first stage; its graph must be the same when the
	// stage begins.
	if err == nil && b.Stamp != "" && b.Stamp != source.Stamp() {
		c.Add(
			&graphio.Fault{
				File:  strings.Join(b.Graph, ", "),
				Found: "the graph was changed since the command began",
				Rule:  "wait until nothing writes to it, and repeat the command",
			},
		)
	}
	return source
}

// write bounds the graph and publishes the table.
func (b Bound) write(ctx context.Context, w *work, source *graphio.Source) (BoundResult, error) {
	result := BoundResult{
		Out:   w.set.Out,
		Input: BoundInput{source.Files, source.Bytes, source.ExampleType.String(), source.OwnerType.String()},
	}
	out := anew(manifest.BoundedFolder, false, b.Bound)
	if w.set.DryRun {
		return result, w.mayWrite(ctx, out)
	}
	err := w.write(
		out,
		func(run manifest.Run, stage *manifest.Stage) (manifest.Index, error) {
			result.RunID = run.RunID.String()
			index, summary, err := b.bound(ctx, w, source, run, stage)
			result.Summary = summary
			return index, err
		},
	)
	return result, err
}

// bound bounds the graph, and returns the index of the table.
func (b Bound) bound(
	ctx context.Context,
	w *work,
	source *graphio.Source,
	run manifest.Run,
	stage *manifest.Stage,
) (manifest.Index, ownergraph.Summary, error) {
	index := manifest.Index{Format: manifest.BoundedFormatOf(b.Bound)}
	var summary ownergraph.Summary
	var err error
	if index.Params, index.ParamsSHA256, err = manifest.Params(b.Bound); err != nil {
		return index, summary, err
	}
	dir, err := store.Abs(stage.Dir)
	if err != nil {
		return index, summary, err
	}
	progress.Expect(manifestio.BytesRead, source.ReadBytes)
	index.Files, summary, err = b.byJob(ctx, w, source, run.RunID, dir)
	if err != nil {
		return index, summary, err
	}
	if index.Facts, err = json.Marshal(summary); err != nil {
		return index, summary, err
	}
	index.RunID = run.RunID
	text, err := index.Encode()
	if err != nil {
		return index, summary, err
	}
	// Certificate, batches and noise that are there already are of a table that was removed, if it was this one.
	return index, summary, w.here.WithTable(sha256.Sum256(text), summary).Agree()
}

// byJob bounds the graph by a Beam job.
func (b Bound) byJob(
	ctx context.Context,
	w *work,
	source *graphio.Source,
	run stream.RunID,
	dir string,
) (files []manifest.File, summary ownergraph.Summary, err error) {
	key, err := store.Abs(w.set.KeyFile)
	if err != nil {
		return nil, summary, err
	}
	shared, removeShared, err := w.jobs.sharedDir(ctx, dir)
	if err != nil {
		return nil, summary, err
	}
	defer removeShared()
	const bytesPerEdge = 16 // of integers
	bundleBytes := int64(0) // by default
	if w.jobs.runner == DefaultRunner {
		bundleBytes = cmp.Or(b.EdgesInMemory, ondisk.DefaultInMemory) * bytesPerEdge
	}
	p, s := beam.NewPipelineWithRoot()
	training := adopt.Training(w.path, key, run).(*transforms.Training)
	limits := transforms.Limits{
		MaxExamplesPerOwner: b.MaxExamplesPerOwner,
		Duplicates:          b.Duplicates,
		MaxNeighborhood:     b.MaxNeighborhood,
		Pools:               b.Pools,
		Random:              b.Order == ownergraph.Random,
		EdgesInMemory:       b.EdgesInMemory,
		BundleBytes:         bundleBytes,
		TempDir:             w.jobs.workDir,
		SharedDir:           shared,
	}
	examples, err := transforms.BoundGraph(ctx, s, training, limits, adopt.Graph(source).(transforms.Graph))
	if err != nil {
		return nil, summary, err
	}
	written, err := examples.Files(s, dir)
	if err != nil {
		return nil, summary, err
	}
	manifestio.Collect(s, dir, collectedFiles, written)
	manifestio.Collect(s, dir, collectedSummary, manifestio.Lines(s, examples.Summary))
	manifestio.Collect(s, dir, collectedOddIDs, examples.OddIDs)
	if err := w.jobs.run(ctx, p); err != nil {
		return nil, summary, err
	}
	if err := removeShared(); err != nil {
		return nil, summary, err
	}
	if files, err = manifestio.CollectedFiles(dir, collectedFiles); err != nil {
		return nil, summary, err
	}
	summaries, err := manifestio.Collected(dir, collectedSummary)
	if err != nil {
		return nil, summary, err
	}
	if err := json.Unmarshal([]byte(strings.Join(summaries, "")), &summary); err != nil {
		return nil, summary, err
	}
	oddIDs, err := manifestio.Collected(dir, collectedOddIDs)
	for _, odd := range source.Warnings(ctx, summary, oddIDs) {
		w.jobs.log.Warn(odd.Error())
	}
	return files, summary, err
}

const (
	collectedSummary = "collected-summary.json"
	collectedOddIDs  = "collected-odd-ids.json"
)

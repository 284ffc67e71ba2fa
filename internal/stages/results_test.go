package stages

import (
	"encoding/json"
	"io"
	"testing"

	"minsep/internal/ledger"
	"minsep/internal/manifest"
	"minsep/internal/ownergraph"
	"minsep/internal/store"
	"minsep/internal/stream"
)

const (
	identity, poisson = `{"kind": "identity"}`, `{"scheme": "poisson", "steps": 8, "prob": 0.25}`

	planOfGraph = `{"graph": {"paths": ["g.csv"]}, "bound": {"max_examples_per_owner": 2}, "scheme": {"scheme": "poisson", "steps": 8, "prob": 0.25, "max_batch_size": 60},
	"strategy": {"kind": "identity"}, "privacy": {"epsilon": 4, "delta": 1e-5}, "noise": {"coordinates": 10, "files": true}, "out": "r"}`
	planOfNumbers = `{"examples": 100, "scheme": %s, "strategy": %s, "privacy": {"epsilon": 4, "delta": 1e-5}, "noise": {"coordinates": 10}, "out": "r"}`
)

// results makes the results of a plan in a run directory, as far as their indexes tell them:
// the files of data hold nothing.
type results struct {
	*Directory
	t    *testing.T
	root stream.Root
}

func newResults(t *testing.T, text string) *results {
	p, err := ParsePlan("test", []byte(text))
	if err != nil || p.Validate() != nil {
		t.Fatalf("%s: %v, %v", text, err, p.Validate())
	}
	p.Out = t.TempDir() + "/run"
	d := &results{&Directory{Out: p.Out, Plan: p}, t, stream.NewRoot()}
	if d.Run, _, err = manifest.OpenRun(p.Out); err != nil {
		t.Fatal(err)
	}
	return d
}

// publish leaves a folder with an index.
func (d *results) publish(folder, format string, params, facts any, inputs map[string]manifest.Digest, files map[string]func(io.Writer) error) {
	d.t.Helper()
	stage, err := manifest.Begin(store.Join(d.Out, folder), false)
	d.must(err)
	ix := manifest.Index{Format: format, RunID: d.Run.RunID, Inputs: inputs}
	ix.Params, ix.ParamsSHA256, err = manifest.Params(params)
	d.must(err)
	if facts != nil {
		ix.Facts, err = json.Marshal(facts)
		d.must(err)
	}
	if folder == manifest.BatchesFolder || folder == manifest.NoiseFolder {
		ix.Secret = IndexSecret(d.root, d.Run.RunID, folder)
	}
	for name, write := range files {
		f, err := stage.Write(name, write)
		d.must(err)
		ix.Files = append(ix.Files, f)
	}
	d.must(stage.Publish(ix))
}

func (d *results) must(err error) {
	if err != nil {
		d.t.Helper()
		d.t.Fatal(err)
	}
}

func nothing(w io.Writer) error { _, err := w.Write([]byte("x")); return err }

func (d *results) make(stage string) {
	ctx := d.t.Context()
	switch stage {
	case "bound":
		bound := BoundOf(d.Plan).Bound
		d.publish(manifest.BoundedFolder, manifest.BoundedFormatOf(bound), bound, tableSummary, nil, map[string]func(io.Writer) error{manifest.BoundedPartName(0): writeTable})
	case "strategy":
		s, err := MakeStrategy(ctx, d.Plan.Strategy)
		d.must(err)
		d.publish(manifest.StrategyFolder, manifest.StrategyFormat, d.Plan.Strategy, nil, nil, map[string]func(io.Writer) error{
			manifest.StrategyFile: func(w io.Writer) error { return json.NewEncoder(w).Encode(s) }})
	case "account":
		d.account()
	case "form":
		formed, source, err := FormOf(d.Plan).Planned(ctx)
		d.must(err)
		files := map[string]func(io.Writer) error{}
		for i := range formed.Shards {
			files[manifest.IndptrName(i, formed.Shards)], files[manifest.RowsName(i, formed.Shards)] = nothing, nothing
			if formed.Scheme.Owners != nil {
				files[manifest.OwnersName(i, formed.Shards)] = nothing
			}
		}
		facts := manifest.BatchesFacts{Examples: formed.Examples, Steps: formed.Scheme.Scheme().NumSteps(), Shards: formed.Shards, RowType: manifest.DInt32, RowsOf: source.RowsOf(), Owners: formed.Owners}
		if o := formed.Scheme.Owners; o != nil {
			facts.ExamplesPerOwner = o.ExamplesPerOwner
		}
		d.publish(manifest.BatchesFolder, manifest.BatchesFormatOf(formed.Scheme), manifest.BatchesParams{Scheme: formed.Scheme}, facts, source.Inputs(), files)
	case "noise":
		here, err := ReadPresent(ctx, d.Out)
		d.must(err)
		training, err := here.Training()
		d.must(err)
		r, facts, err := NoiseOf(d.Plan, here.Certificate().NoiseMultiplier).Recipe(ctx, training)
		d.must(err)
		r.Bind(d.root, d.Run.RunID, "key")
		d.publish(manifest.NoiseFolder, manifest.NoiseFormat, r.Params, facts, nil, map[string]func(io.Writer) error{manifest.RecipeFile: r.Write})
	}
}

// account verifies the plan's claim, which needs no samples.
func (d *results) account() {
	ctx := d.t.Context()
	here, err := ReadPresent(ctx, d.Out)
	d.must(err)
	p, r, _, err := AccountOf(d.Plan).Problem(ctx, here)
	d.must(err)
	plan, err := p.Plan(ctx)
	d.must(err)
	folder := store.Join(d.Out, manifest.LedgerFolder)
	d.must(store.MkdirAll(ctx, folder, manifest.PublicDir))
	b, err := r.Encode()
	d.must(err)
	write := func(dir, name string, b []byte) {
		_, err := manifest.WriteFile(dir, name, manifest.PublicFile, func(w io.Writer) error { _, err := w.Write(b); return err })
		d.must(err)
	}
	write(folder, manifest.RequestFile, b)
	l, err := ledger.Create(folder, plan.Protocol)
	d.must(err)
	c, err := l.Certificate()
	d.must(err)
	b, err = c.Encode()
	d.must(err)
	write(d.Out, ClaimFile(c.Status), b)
}

// tableSummary is of a table of 100 examples of 100 owners.
var tableSummary = ownergraph.Summary{Examples: 100, Owners: 100, Edges: 100, Kept: 100, KeptCopies: 100, KeptEdges: 100,
	GivenPerOwner: every(100), KeptPerOwner: every(100), GivenOwners: every(100), KeptOwners: every(100), Neighborhoods: every(100)}

func every(n int64) ownergraph.Histogram { return ownergraph.Histogram{{Value: 1, Count: n}} }

func writeTable(w io.Writer) error {
	var rows ownergraph.Rows
	rows.Reset(0, ownergraph.Int64, ownergraph.Int64)
	for i := range int64(100) {
		rows.Examples.AppendInt(i)
		rows.Copies = append(rows.Copies, 1)
		rows.Owners.AppendInt(i)
		rows.Ends = append(rows.Ends, uint32(i+1))
	}
	table := manifest.NewBoundedWriter(w, ownergraph.Int64, ownergraph.Int64, false)
	if err := table.Write(&rows); err != nil {
		return err
	}
	return table.Close()
}

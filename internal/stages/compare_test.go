package stages

import (
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"
	"testing"

	"minsep/internal/ledger"
	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/ownergraph"
	"minsep/internal/store"
	"minsep/internal/stream"
)

// otherValues are values of fields that take a few only.
var otherValues = map[string]string{
	"scheme.scheme": `"fixed"`, "scheme.sample": `"owners"`, "strategy.kind": `"bsr"`, "strategy.workload": `"training"`, "strategy.optimizer": `"sgd"`,
	"strategy.schedule": `"cosine"`, "strategy.objective": `"max"`, "strategy.memory": `"inf"`, "privacy.cpu_time": `"3m"`, "privacy.unit": `"example"`,
	"noise.grid": `"none"`, "noise.dtype": `"float64"`, "noise.words": `"chacha12"`, "bound.order": `"random"`,
	"graph.format": `"tsv"`, "graph.header": `"no"`, "graph.example_type": `"string"`, "graph.owner_type": `"string"`, "graph.delimiter": `";"`, "graph.encoding": `"latin1"`, "graph.owner_separator": `";"`, "graph.row_ids": "true",
	"noise.clip_norm": `0.5`,
}

const (
	identity, poisson = `{"kind": "identity"}`, `{"scheme": "poisson", "steps": 8, "prob": 0.25}`

	planOfGraph = `{"graph": {"paths": ["g.csv"]}, "bound": {"max_examples_per_owner": 2}, "scheme": {"scheme": "poisson", "steps": 8, "prob": 0.25, "max_batch_size": 60},
		"strategy": {"kind": "identity"}, "privacy": {"epsilon": 4, "delta": 1e-5}, "noise": {"coordinates": 10, "files": true}, "out": "r"}`
	planOfNumbers = `{"examples": 100, "scheme": %s, "strategy": %s, "privacy": {"epsilon": 4, "delta": 1e-5}, "noise": {"coordinates": 10}, "out": "r"}`
)

// comparedPlan is a plan that has results.
type comparedPlan struct {
	of     string   // beginning of the fields that are changed
	stages []string // whose results are there
	text   string
}

func comparedPlans() (list []comparedPlan) {
	add := func(of, stages, text string) { list = append(list, comparedPlan{of, strings.Fields(stages), text}) }
	add("", "bound strategy account form noise", planOfGraph)
	add("scheme.", "bound form", strings.Replace(planOfGraph, `"max_batch_size": 60`, `"sample": "owners", "examples_per_owner": 1`, 1))
	add("bound.", "bound", strings.Replace(planOfGraph, `"max_examples_per_owner": 2}, "scheme": {"scheme": "poisson", "steps": 8, "prob": 0.25, "max_batch_size": 60}`,
		`"max_examples_per_owner": 1, "pools": 2}, "scheme": {"scheme": "rotation", "steps": 8, "batch_size": 10}`, 1))
	add("examples", "form", fmt.Sprintf(planOfNumbers, poisson, identity))
	for _, scheme := range []string{
		poisson,
		`{"scheme": "b-min-sep", "steps": 8, "min_sep": 2, "batch_size": 10}`,
		`{"scheme": "epoch-min-sep", "steps": 8, "min_sep": 2, "epoch_steps": 4}`,
		`{"scheme": "balls-in-bins", "steps": 8, "min_sep": 4, "max_batch_size": 40}`,
		`{"scheme": "cyclic-poisson", "steps": 8, "min_sep": 2, "prob": 0.25}`,
		`{"scheme": "fixed", "steps": 8, "min_sep": 2, "batch_size": 10}`,
	} {
		add("scheme.", "form", fmt.Sprintf(planOfNumbers, scheme, identity))
	}
	for _, strategy := range []string{
		`{"kind": "banded-toeplitz", "bands": 2, "min_sep": 4}`, `{"kind": "banded-toeplitz", "bands": 2, "workload": "training", "momentum": 0.5}`,
		`{"kind": "banded-toeplitz", "bands": 2, "workload": "training", "weight_decay": 0.1, "learning_rate": 0.1, "schedule": "warmup-cosine", "warmup_steps": 2}`,
		`{"kind": "banded-toeplitz", "bands": 2, "workload": "training", "optimizer": "adam", "momentum": 0.9, "memory": 2}`,
		`{"kind": "lambda-cgd", "lambda": 0.5}`, `{"kind": "blt", "buffers": 2}`, `{"kind": "amplified-toeplitz", "bands": 2, "independent_noise": 2}`,
		`{"kind": "toeplitz", "column": [1, 0.5]}`, `{"kind": "bfr", "bands": 2, "gamma": 0.5}`, `{"kind": "one-parameter", "bands": 2, "offset": 0.1}`, `{"kind": "tree"}`,
	} {
		add("strategy.", "strategy", fmt.Sprintf(planOfNumbers, poisson, strategy))
	}
	return list
}

// TestComparisonSeesEveryField changes one field of a plan after the other, whatever fields there
// are, and wants a result of the plan before to be told from one of the plan after.
func TestComparisonSeesEveryField(t *testing.T) {
	tried := map[string]bool{}
	for _, c := range comparedPlans() {
		d := newResults(t, c.text)
		for _, name := range c.stages {
			d.make(name)
		}
		for _, name := range c.stages {
			if there, differs, err := d.Compare(t.Context(), d.Result(name)); !there || differs != nil || err != nil {
				t.Fatalf("%s: %s: there %v, %q, %v", c.text, name, there, differs, err)
			}
		}
		for _, path := range planPaths(reflect.TypeFor[Plan](), "") {
			other, valid := changed(t, d.Plan, path)
			other.Out = d.Out // which says where the results are
			if !valid || !strings.HasPrefix(path, c.of) {
				continue
			}
			tried[path] = true
			after := &Directory{Out: d.Out, Plan: other, Inputs: d.Inputs, Run: d.Run}
			seen := slices.ContainsFunc(c.stages, func(name string) bool {
				_, differs, err := after.Compare(t.Context(), after.Result(name))
				return differs != nil || err != nil
			})
			// Names and places decide nothing, and package pipelines compares, by the plan in run.json, how a
			// graph is read.
			if elsewhere := strings.HasPrefix(path, "graph.") || reflect.DeepEqual(other.without("nothing"), d.Plan.without("nothing")); seen == elsewhere {
				t.Errorf("%s is changed in %s: seen %v", path, c.text, seen)
			}
		}
	}
	for _, path := range planPaths(reflect.TypeFor[Plan](), "") {
		if !tried[path] && path != "strategy.steps" { // those of the scheme
			t.Errorf("%s is changed in no plan: give otherValues a value, or comparedPlans a plan that takes it", path)
		}
	}
}

// planPaths are the paths of the fields of a plan that have no fields.
func planPaths(t reflect.Type, prefix string) (paths []string) {
	for f := range fieldsOf(t) {
		path := prefix + f.name
		inner := f.of
		if inner.Kind() == reflect.Pointer {
			inner = inner.Elem()
		}
		if inner.Kind() == reflect.Struct {
			paths = append(paths, planPaths(inner, path+".")...)
			continue
		}
		paths = append(paths, path)
	}
	return paths
}

type jsonField struct {
	name string
	of   reflect.Type
}

// fieldsOf are the fields of a struct in JSON, with those of embedded ones.
func fieldsOf(t reflect.Type) func(yield func(jsonField) bool) {
	return func(yield func(jsonField) bool) {
		for _, f := range reflect.VisibleFields(t) {
			name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
			if f.IsExported() && name != "" && name != "-" && !yield(jsonField{name, f.Type}) {
				return
			}
		}
	}
}

// changed is a plan with another value of a field, if such a plan is valid.
func changed(t *testing.T, p Plan, path string) (other Plan, valid bool) {
	b := must.Get(json.Marshal(p))(t)
	var all map[string]any
	must.Do(t, json.Unmarshal(b, &all))
	group, name, nested := strings.Cut(path, ".")
	at := all
	if nested {
		if all[group] == nil {
			return other, false // a group that the plan has not
		}
		at = all[group].(map[string]any)
	} else {
		name = group
	}
	value := otherValue(at[name], path)
	switch {
	case path == "scheme.steps":
		all["strategy"].(map[string]any)["steps"] = value
	case path == "scheme.sample" && at[name] == nil:
		at["examples_per_owner"] = 1
	case reflect.DeepEqual(value, at[name]):
		return other, false
	}
	at[name] = value
	b = must.Get(json.Marshal(all))(t)
	other, err := ParsePlan(path, b)
	return other, err == nil && other.Validate() == nil
}

// otherValue is another value of a field than the one that is given, nil for none.
func otherValue(value any, path string) (other any) {
	if text, ok := otherValues[path]; ok {
		if err := json.Unmarshal([]byte(text), &other); err != nil {
			panic(err)
		}
		return other
	}
	switch v := value.(type) {
	case bool:
		return !v
	case float64:
		if v < 1 {
			return 0.75 * v
		}
		return v + 1
	case string:
		return v + "x"
	case []any:
		return append(slices.Clone(v), v[len(v)-1])
	}
	t := reflect.TypeFor[Plan]()
	for name := range strings.SplitSeq(path, ".") {
		if t.Kind() == reflect.Pointer {
			t = t.Elem()
		}
		for f := range fieldsOf(t) {
			if f.name == name {
				t = f.of
				break
			}
		}
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	switch t.Kind() {
	case reflect.Bool:
		return true
	case reflect.String:
		return "x"
	case reflect.Slice:
		if t.Elem().Kind() == reflect.String {
			return []any{"x"}
		}
		return []any{1}
	case reflect.Float64:
		return 0.75
	}
	return 2
}

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
	d := &results{&Directory{Out: p.Out, Plan: p, Inputs: map[string]manifest.Digest{}}, t, stream.NewRoot()}
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

package pipelines_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"minsep/internal/inspect"
	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/ownergraph"
	"minsep/internal/pipelines"
	"minsep/internal/stream"
	"minsep/sampling"
)

// formedRun bounds a small graph in one run directory and forms batches of it in another.
func formedRun(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	key, graph := filepath.Join(dir, "key"), filepath.Join(dir, "graph.csv")
	must.Do(t, stream.CreateKeyFile(key))
	must.Do(t, os.WriteFile(graph, []byte("example_id,owner_id\n1,7\n2,7\n3,7\n4,8\n5,9\n5,8\n6,6\n"), 0o600))
	table := pipelines.Bound{Graph: []string{graph}, Bound: ownergraph.Bound{MaxExamplesPerOwner: 2}}
	must.Get(table.Run(t.Context(), pipelines.Options{Out: filepath.Join(dir, "table"), KeyFile: key}))(t)
	form := pipelines.Form{Bounded: filepath.Join(dir, "table"), Params: sampling.Params{Scheme: "poisson", Steps: 40, Prob: 0.5, MaxBatchSize: 4, Pad: true}}
	run := filepath.Join(dir, "run")
	must.Get(form.Run(t.Context(), pipelines.Options{Out: run, KeyFile: key}))(t)
	return run
}

func failedChecks(t *testing.T, run string) (names []string) {
	t.Helper()
	found := must.Get(inspect.Directory(t.Context(), run, inspect.Options{}))(t)
	for _, folder := range found.Folders {
		for _, p := range folder.Checks {
			if !p.Held {
				names = append(names, p.Name)
			}
		}
	}
	return names
}

type object = map[string]any

// lie changes the index of a folder such that its hashes match again, and those of the batches,
// whose input the table is.
func lie(t *testing.T, run, folder string, change func(index object)) {
	t.Helper()
	path := filepath.Join(run, folder, manifest.IndexName)
	b := must.Get(os.ReadFile(path))(t)
	var index object
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	must.Do(t, d.Decode(&index))
	change(index)
	params, _ := json.Marshal(index["params"])
	index["params_sha256"] = manifest.Digest(sha256.Sum256(params)).String()
	b = must.Get(json.Marshal(index))(t)
	must.Do(t, os.WriteFile(path, b, 0o600))
	if folder == manifest.BoundedFolder {
		lie(t, run, manifest.BatchesFolder, func(ix object) {
			ix["inputs"].(object)[folder] = manifest.Digest(sha256.Sum256(b)).String()
		})
	}
}

func TestInspectHoldsTheIndexAgainstTheFiles(t *testing.T) {
	run := formedRun(t)
	if broken := failedChecks(t, run); broken != nil {
		t.Fatalf("a sound run breaks %v", broken)
	}
	pristine := os.DirFS(run)
	for _, c := range []struct {
		folder, part, field string
		value               any
		want                string
	}{
		{"bounded", "facts", "examples", 7, "given graph"},
		{"bounded", "facts", "edges", 8, "given graph"},
		{"bounded", "facts", "duplicate_edges", -1, "given graph"},
		{"bounded", "facts", "dropped_owner_full", 3, "given graph"},
		{"bounded", "facts", "dropped_neighborhood", 1, "given graph"},
		{"bounded", "facts", "given_examples_per_owner", []any{object{"value": 1, "count": 7}}, "given graph"},
		{"bounded", "facts", "owners", 5, "examples per owner"},
		{"bounded", "facts", "neighborhoods", []any{object{"value": 1, "count": 5}}, "neighbourhoods"},
		{"bounded", "facts", "kept_edges", 5, "rows"},
		{"bounded", "params", "max_examples_per_owner", 1, "owners"},
		{"bounded", "params", "max_neighborhood", 1, "largest neighbourhood"},
		{"batches", "facts", "examples", 7, "facts"},
		{"batches", "facts", "batch_size", 5, "facts"},
		{"batches", "facts", "expected_batch_size", 2.5000001, "facts"},
		{"batches", "facts", "expected_batch_size", 0, "facts"},
		{"batches", "facts", "rows_of", "range", "facts"},
		{"batches", "facts", "row_type", "<i8", "readable"},
		{"batches", "facts", "steps", 39, "readable"},
		{"batches", "", "run_id", "0123456789abcdef0123456789abcdef", "run"},
		{"batches", "inputs", "bounded", "00000000000000000000000000000000ffffffffffffffffffffffffffffffff", "input"},
	} {
		other := filepath.Join(t.TempDir(), "run")
		must.Do(t, os.CopyFS(other, pristine))
		lie(t, other, c.folder, func(index object) {
			if c.part != "" {
				index = index[c.part].(object)
			}
			maps.Copy(index, object{c.field: c.value})
		})
		if broken := failedChecks(t, other); !slices.Contains(broken, c.want) {
			t.Errorf("%s: %s %s = %v: broken %v, want %q", c.folder, c.part, c.field, c.value, broken, c.want)
		}
	}
	must.Do(t, os.Remove(filepath.Join(run, "run.json")))
	if broken := failedChecks(t, run); !slices.Equal(broken, []string{"readable", "run"}) {
		t.Errorf("without run.json: broken %v", broken)
	}
}

// A command that is stopped says so; what it has not read is not called broken.
func TestInspectStops(t *testing.T) {
	run := formedRun(t)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if _, err := inspect.Directory(ctx, run, inspect.Options{}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}

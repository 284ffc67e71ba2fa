package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"minsep/internal/must"
	"minsep/internal/ownergraph"
	"minsep/internal/pipelines"
	"minsep/internal/stream"
	"minsep/sampling"
)

// formRun bounds a small graph and forms batches of it.
func formRun(t *testing.T, graph string) string {
	t.Helper()
	dir := t.TempDir()
	file, key, run := filepath.Join(dir, "graph.csv"), filepath.Join(dir, "key"), filepath.Join(dir, "run")
	must.Do(t, os.WriteFile(file, []byte(graph), 0o600))
	must.Do(t, stream.CreateKeyFile(key))
	o := pipelines.Options{Out: run, KeyFile: key}
	bound := pipelines.Bound{Graph: []string{file}, Bound: ownergraph.Bound{MaxExamplesPerOwner: 3}}
	must.Get(bound.Run(t.Context(), o))(t)
	form := pipelines.Form{Bounded: run, Shards: 3,
		Params: sampling.Params{Scheme: "b-min-sep", Steps: 40, MinSep: 4, BatchSize: 5}}
	must.Get(form.Run(t.Context(), o))(t)
	return run
}

func testGraph(id func(i int) string) string {
	var b strings.Builder
	b.WriteString("example_id,owner_id\n")
	for i := range 200 {
		b.WriteString(id(i) + "," + id(i/3) + "\n")
		b.WriteString(id(i) + "," + id(i/5+100) + "\n")
	}
	return b.String()
}

// TestRunDirectoryInPython reads run directories with NumPy and pyarrow alone, and a spoiled one,
// which must fail.
func TestRunDirectoryInPython(t *testing.T) {
	python := pythonWith(t, "numpy, pyarrow.parquet")
	for name, id := range map[string]func(i int) string{
		"integers": func(i int) string { return strings.Repeat("7", 1+i%9) + string(rune('0'+i%10)) },
		"strings":  func(i int) string { return "PMID:" + string(rune('a'+i%26)) + strings.Repeat("é", i/26) },
	} {
		run := formRun(t, testGraph(id))
		if out, err := exec.Command(python, "python/check_run.py", run).CombinedOutput(); err != nil {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
		spoil(t, filepath.Join(run, "batches", "rows-00001-of-00003.npy"))
		if out, err := exec.Command(python, "python/check_run.py", run).CombinedOutput(); err == nil {
			t.Errorf("%s: a spoiled run passes: %s", name, out)
		}
	}
}

// spoil inverts a bit of the last byte of a file.
func spoil(t *testing.T, file string) {
	t.Helper()
	b := must.Get(os.ReadFile(file))(t)
	b[len(b)-1] ^= 1
	must.Do(t, os.WriteFile(file, b, 0o600))
}

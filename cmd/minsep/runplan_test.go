package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"minsep/internal/must"
	"minsep/internal/pipelines"
	"minsep/internal/stream"
)

// A plan with ten faults gets ten messages, whatever the faults are.
func TestPlanWithTenFaults(t *testing.T) {
	for name, c := range map[string]struct{ plan, want string }{
		"of values": {`{
			"scheme": {"scheme": "none", "steps": 0, "batch_size": 3},
			"strategy": {"kind": "other"},
			"privacy": {"epsilon": -1, "delta": 2},
			"noise": {"coordinates": 0, "files": true, "dtype": "int8"}, "batches": {"shards": -1}, "out": "run"
		}`, "coordinates 0|delta 2|dtype int8|epsilon -1|graph, examples|key is missing|kind \"other\"|scheme \"none\"|shards -1|steps 0"},
		"of the text": {`{
			"mood": 1, "examples": 100, "examples": 200,
			"scheme": {"scheme": "poisson", "steps": "many", "batch_size": 4, "min_sep": 1.5},
			"strategy": {"kind": "identity", "colour": "red"},
			"privacy": {"epsilon": "large", "delta": 1},
			"noise": {"coordinates": 4, "files": 1, "dtype": 2, "words": 3}, "batches": {"shards": true}, "key": "none", "out": "run"
		}`, "mood: unknown field|examples: given twice|scheme.steps \"many\": must be a whole|scheme.min_sep 1.5: must be a whole|strategy.colour: unknown|privacy.epsilon \"large\": must be a number|noise.files 1: must be true|noise.dtype 2|noise.words 3|batches.shards true: must be a whole"},
	} {
		dir := t.TempDir()
		must.Do(t, os.WriteFile(filepath.Join(dir, "plan.json"), []byte(c.plan), 0o600))
		cmd := exec.Command(os.Args[0], "run", "plan.json")
		cmd.Env, cmd.Dir = append(os.Environ(), beCommand+"=1"), dir
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != exitUsage {
			t.Errorf("%s: exits with %d (%v)", name, code, err)
		}
		want := strings.Split(c.want, "|")
		lines := strings.Split(strings.TrimSpace(string(out)), "\n")
		if len(lines) != len(want) {
			t.Errorf("%s: %d messages for %d faults:\n%s", name, len(lines), len(want), out)
		}
		for _, text := range want {
			if !slices.ContainsFunc(lines, func(line string) bool { return strings.Contains(line, text) }) {
				t.Errorf("%s: no message says %q:\n%s", name, text, out)
			}
		}
		if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
			t.Errorf("%s: the run left %v (%v)", name, entries, err)
		}
	}
}

// What a dry run expects is what the run leaves, within the bounds that docs/run.md states, and a
// dry run writes nothing.
func TestDryRunExpectsWhatComes(t *testing.T) {
	k := newPlannedRun(t)
	before := hashes(t, k.dir)
	stages := func(args ...string) []pipelines.StageRun {
		t.Helper()
		c := k.command()
		c.Args = append(slices.DeleteFunc(c.Args, func(a string) bool { return a == "--quiet" }), append(args, "--json")...)
		out := must.Get(c.Output())(t)
		var r pipelines.RunResult
		must.Do(t, json.Unmarshal(out, &r))
		return r.Stages
	}
	expected := stages("--dry-run")
	if diff := cmp.Diff(before, hashes(t, k.dir)); diff != "" {
		t.Errorf("a dry run changed (-before +after):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(k.dir, "run")); err == nil {
		t.Error("a dry run made the run directory")
	}
	for i, done := range stages() {
		e := expected[i]
		if e.State != pipelines.StageToDo || e.Estimate == nil {
			t.Fatalf("%s is %s in a dry run: %+v", e.Stage, e.State, e.Estimate)
		}
		if e.Estimate.Files != done.Files {
			t.Errorf("%s: %d files expected, %d made", e.Stage, e.Estimate.Files, done.Files)
		}
		folder := map[string]string{"form": "batches", "noise": "noise"}[done.Stage]
		if folder == "" {
			continue
		}
		size := int64(0)
		for name := range hashes(t, filepath.Join(k.dir, "run", folder)) {
			if info, err := os.Stat(filepath.Join(k.dir, "run", folder, name)); err == nil && !strings.HasSuffix(name, ".json") {
				size += info.Size()
			}
		}
		// Batches come out by chance; noise's sizes follow from the plan.
		if ratio := float64(size) / float64(e.Estimate.Bytes); folder == "noise" && ratio != 1 || ratio < 0.8 || ratio > 1.25 {
			t.Errorf("%s: %.3f times the expected bytes", done.Stage, ratio)
		}
	}
	for _, s := range stages("--dry-run") {
		if s.State != pipelines.StageSkipped {
			t.Errorf("%s is %s in a dry run after the run", s.Stage, s.State)
		}
	}
}

const plannedText = `{
	"graph": {"paths": ["graph.tsv"], "header": "no"}, "bound": {"max_examples_per_owner": 1},
	"scheme": {"scheme": "b-min-sep", "steps": 64, "min_sep": 4, "batch_size": 200},
	"strategy": {"kind": "banded-toeplitz", "bands": 4},
	"privacy": {"epsilon": 2, "delta": 1e-3, "samples": 5000},
	"noise": {"coordinates": 60000, "files": true, "steps_per_file": 8, "shards": 4},
	"key": "key", "out": "run",
}`

// plannedRun is a folder with a plan, run by the command in processes of their own.
type plannedRun struct {
	t   *testing.T
	dir string
}

func newPlannedRun(t *testing.T) plannedRun {
	t.Helper()
	k := plannedRun{t, t.TempDir()}
	must.Do(t, stream.CreateKeyFile(filepath.Join(k.dir, "key")))
	var graph strings.Builder
	for e := range 60_000 {
		fmt.Fprintf(&graph, "%d\t%d\n%d\t%d\n", e, e, e, 60_000+e/4)
	}
	for name, text := range map[string]string{"graph.tsv": graph.String(), "plan.json": plannedText} {
		must.Do(t, os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o600))
	}
	return k
}

func (k plannedRun) command() *exec.Cmd {
	c := exec.Command(os.Args[0], "run", "plan.json", "--run-id=000000000000000000000000000000ab", "--quiet")
	c.Env = append(os.Environ(), beCommand+"=1")
	c.Dir = k.dir
	return c
}

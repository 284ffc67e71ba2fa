package planrun_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"minsep/manifest"
	"minsep/pipelines"
	"minsep/pipelines/planrun"
	"minsep/sampling/ownergraph"
	"minsep/stages"
)

// TestAnotherGraph: a table of the graph before is never taken for that of the plan's graph, under
// the same name or another, also where run.json does not name it, since the stage was stopped, or
// where the stage that makes it again is stopped.
func TestAnotherGraph(t *testing.T) {
	for _, c := range []struct{ moved, unnamed, stopped bool }{{}, {moved: true}, {unnamed: true}, {stopped: true}} {
		d := newDirectory(t)
		settings := planrun.Settings{Until: "strategy"}
		ctx := t.Context()
		graph := filepath.Join(filepath.Dir(d.out), "graph.csv")
		run := func(overwrite bool) (planrun.RunResult, error) {
			p := d.plan(0)
			p.Graph, p.Bound = &stages.PlanGraph{Paths: []string{graph}}, &ownergraph.Bound{MaxExamplesPerOwner: 1}
			return planrun.Run(ctx, p, pipelines.Options{Overwrite: overwrite}, settings)
		}
		write := func(text string) {
			if err := os.WriteFile(graph, []byte("example_id,owner_id\n"+text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		write("1,1\n2,2\n")
		if r := d.must(run(false)); r.Examples != 2 {
			t.Fatalf("%d examples", r.Examples)
		}
		if c.unnamed {
			was, err := manifest.ReadRun(ctx, d.out)
			if err != nil {
				t.Fatal(err)
			}
			is := was
			is.Stages = nil
			if err := manifest.WriteRun(d.out, is, &was); err != nil {
				t.Fatal(err)
			}
		}
		if c.moved {
			graph += ".csv"
		}
		write("1,1\n2,2\n3,3\n")
		before := d.files()
		_, err := run(false)
		var bad *pipelines.ParamError
		if !errors.As(err, &bad) || bad.Param != "out" || !strings.Contains(bad.Rule, "bounded: it was made from another graph") {
			t.Errorf("%+v: %v", c, err)
		}
		if got := d.files(); got[manifest.RunName] != before[manifest.RunName] {
			t.Error("run.json was changed")
		}
		if c.stopped {
			var stop context.CancelFunc
			ctx, stop = context.WithCancel(ctx)
			settings.Watch = func(string) func() { stop(); return func() {} }
			if _, err := run(true); !errors.Is(err, context.Canceled) {
				t.Errorf("stopped: %v", err)
			}
			ctx, settings.Watch = t.Context(), nil
			if r := d.must(run(false)); r.Examples != 3 {
				t.Errorf("stopped: %d examples", r.Examples)
			}
			continue
		}
		if r := d.must(run(true)); r.Examples != 3 || len(r.Again) != 1 || r.Again[0] != "bound" {
			t.Errorf("%d examples, made again: %v", r.Examples, r.Again)
		}
		if r := d.must(run(false)); r.Stages[0].State != planrun.StageSkipped {
			t.Errorf("%+v", r.Stages)
		}
	}
}

// TestGraphReadOtherwise: a table of owners in one column is not taken for the table of owners in
// another one of the same file.
func TestGraphReadOtherwise(t *testing.T) {
	d := newDirectory(t)
	graph := filepath.Join(filepath.Dir(d.out), "graph.csv")
	if err := os.WriteFile(graph, []byte("example_id,author,reviewer\n1,1,8\n2,1,9\n3,1,9\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(owner string, overwrite bool) (planrun.RunResult, error) {
		p := d.plan(0)
		p.Graph, p.Bound = &stages.PlanGraph{Paths: []string{graph}, OwnerColumn: owner}, &ownergraph.Bound{MaxExamplesPerOwner: 1}
		return planrun.Run(t.Context(), p, pipelines.Options{Overwrite: overwrite}, planrun.Settings{Until: "strategy"})
	}
	if r := d.must(run("author", false)); r.Examples != 1 {
		t.Fatalf("%d examples", r.Examples)
	}
	_, err := run("reviewer", false)
	var bad *pipelines.ParamError
	if !errors.As(err, &bad) || !strings.Contains(bad.Rule, `bounded: graph.owner_column is "author" there, "reviewer" in the plan`) {
		t.Errorf("another column of owners: %v", err)
	}
	if r := d.must(run("reviewer", true)); r.Examples != 2 || len(r.Again) != 1 || r.Again[0] != "bound" {
		t.Errorf("%d examples, made again: %v", r.Examples, r.Again)
	}
}

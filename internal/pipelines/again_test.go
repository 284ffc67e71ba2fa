package pipelines_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/ownergraph"
	"minsep/internal/pipelines"
	"minsep/internal/stages"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

// directory is a run directory with a key, for plans of numbered examples.
type directory struct {
	t        *testing.T
	key, out string
}

func newDirectory(t *testing.T) directory {
	dir := t.TempDir()
	d := directory{t, filepath.Join(dir, "key"), filepath.Join(dir, "run")}
	must.Do(t, stream.CreateKeyFile(d.key))
	return d
}

// plan is the plan for a number of examples.
func (d directory) plan(examples int64) stages.Plan {
	return stages.Plan{
		Examples: examples,
		Scheme:   sampling.Params{Scheme: "poisson", Steps: 3, Prob: .5},
		Strategy: mechanism.Params{Kind: "identity", Steps: 3},
		Privacy:  stages.PlanPrivacy{Epsilon: 4, Delta: 1e-2},
		Noise:    stages.PlanNoise{Coordinates: 3, ClipNorm: 1},
		Key:      d.key, Out: d.out,
	}
}

// run runs the plan for a number of examples.
func (d directory) run(ctx context.Context, examples int64, how pipelines.Settings) (pipelines.RunResult, error) {
	return pipelines.RunPlan(ctx, d.plan(examples), pipelines.Options{}, how)
}

func (d directory) must(r pipelines.RunResult, err error) pipelines.RunResult {
	d.t.Helper()
	must.Do(d.t, err)
	return r
}

// files are the contents of all files, by their paths in the run directory.
func (d directory) files() map[string]string {
	d.t.Helper()
	all := map[string]string{}
	err := filepath.WalkDir(d.out, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(d.out, path)
		all[name] = string(b)
		return err
	})
	must.Do(d.t, err)
	return all
}

// sampled is a plan of a graph with a certificate that takes samples.
func (d directory) sampled(graph string, epsilon float64) stages.Plan {
	p := d.plan(0)
	p.Graph, p.Bound = &stages.PlanGraph{Paths: []string{graph}}, &ownergraph.Bound{MaxExamplesPerOwner: 1}
	p.Scheme = sampling.Params{Scheme: "b-min-sep", Steps: 8, MinSep: 2, BatchSize: 20}
	p.Strategy = mechanism.Params{Kind: "banded-toeplitz", Steps: 8, Bands: 2}
	p.Privacy.Epsilon, p.Privacy.Samples = epsilon, 2000
	return p
}

// graph writes a graph of n examples, each of an owner of its own.
func (d directory) graph(n int) string {
	d.t.Helper()
	text := "example_id,owner_id\n"
	for i := range n {
		text += fmt.Sprintf("%d,%d\n", i, i)
	}
	path := filepath.Join(filepath.Dir(d.key), "graph.csv")
	must.Do(d.t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

// states are the states of the stages of a run.
func states(r pipelines.RunResult) string {
	var list []string
	for _, s := range r.Stages {
		list = append(list, s.Stage+" "+s.State)
	}
	return strings.Join(list, ", ")
}

// in is the same key with another run directory.
func (d directory) in(name string) directory {
	d.out = filepath.Join(filepath.Dir(d.key), name)
	return d
}

// TestAgainTakesOver: another run of a plan, or of a changed plan, is in a directory of its own. It
// has the table, the strategy and the certificate that still hold, byte for byte, and batches and
// noise of its own; the directory before stays as it is.
func TestAgainTakesOver(t *testing.T) {
	d := newDirectory(t)
	graph := d.graph(200)
	first := d.must(pipelines.RunPlan(t.Context(), d.sampled(graph, 2), pipelines.Options{}, pipelines.Settings{}))
	before := d.files()
	again := func(name string, p stages.Plan, want string, o pipelines.Options) map[string]string {
		t.Helper()
		r := d.must(pipelines.RunPlan(t.Context(), p, o, pipelines.Settings{Again: d.in(name).out}))
		if got := states(r); got != want {
			t.Errorf("%s: %s, want %s", name, got, want)
		}
		if !maps.Equal(before, d.files()) {
			t.Errorf("%s: the directory before was changed", name)
		}
		if o.DryRun {
			if _, err := os.Stat(d.in(name).out); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s: a dry run has left it (%v)", name, err)
			}
			return nil
		}
		run, err := manifest.ReadRun(t.Context(), d.in(name).out)
		if err != nil || len(run.Earlier) != 1 || run.Earlier[0].String() != first.RunID || run.RunID == run.Earlier[0] {
			t.Errorf("%s: run %v after %v (%v)", name, run.RunID, run.Earlier, err)
		}
		return d.in(name).files()
	}
	const drawn = ", form done, noise done"
	again("dry", d.sampled(graph, 2), "bound take over, strategy take over, account take over, form to do, noise to do", pipelines.Options{DryRun: true})
	same := again("same", d.sampled(graph, 2), "bound skipped, strategy skipped, account skipped"+drawn, pipelines.Options{})
	for name, content := range before {
		shared := strings.HasPrefix(name, "bounded/") || strings.HasPrefix(name, "strategy/") || strings.HasPrefix(name, "ledger/") || name == manifest.CertificateFile || name == manifest.IgnoreName
		if shared != (same[name] == content) {
			t.Errorf("%s is the same: %v", name, !shared)
		}
	}
	// The protocol of the certificate before had its chance to err, and counts.
	other := again("other", d.sampled(graph, 2.5), "bound skipped, strategy skipped, account done"+drawn, pipelines.Options{})
	if other[manifest.CertificateFile] == before[manifest.CertificateFile] || !strings.Contains(other["ledger/protocol.json"], `"earlier"`) {
		t.Errorf("the protocol before does not count: %s", other["ledger/protocol.json"])
	}
	otherwise := d.sampled(graph, 2)
	otherwise.Graph.ExampleColumn, otherwise.Graph.OwnerColumn = "owner_id", "example_id"
	again("read otherwise", otherwise, "bound done, strategy skipped, account done"+drawn, pipelines.Options{})
	d.graph(201)
	again("more data", d.sampled(graph, 2), "bound done, strategy skipped, account done"+drawn, pipelines.Options{})

	// What was taken over is not made again under the new run id.
	d = d.in("same")
	must.Do(t, os.RemoveAll(filepath.Join(d.out, manifest.BoundedFolder)))
	d.graph(200)
	must.Fail(t, "the table was made again", "was taken over from an earlier run")(pipelines.RunPlan(t.Context(), d.sampled(graph, 2), pipelines.Options{}, pipelines.Settings{}))
}

// TestAgainStopped: a copy that was stopped is finished by the same command, and by no other.
func TestAgainStopped(t *testing.T) {
	d := newDirectory(t)
	graph := d.graph(200)
	d.must(pipelines.RunPlan(t.Context(), d.sampled(graph, 2), pipelines.Options{}, pipelines.Settings{Until: "account"}))
	next := d.in("next")
	how := pipelines.Settings{Again: next.out, Until: "account"}
	d.must(pipelines.RunPlan(t.Context(), d.sampled(graph, 2), pipelines.Options{}, how))
	want := next.files()
	bounded := filepath.Join(next.out, manifest.BoundedFolder)
	for i, stopped := range []func() error{
		func() error {
			return errors.Join(os.Remove(filepath.Join(next.out, manifest.CertificateFile)), os.Remove(filepath.Join(next.out, "ledger/request.json")))
		},
		func() error {
			return errors.Join(os.RemoveAll(bounded), os.RemoveAll(filepath.Join(next.out, "ledger")))
		},
		func() error {
			return errors.Join(os.Remove(filepath.Join(bounded, manifest.IndexName)), os.WriteFile(filepath.Join(bounded, "incomplete.json"), []byte("{}"), 0o600))
		},
	} {
		must.Do(t, errors.Join(stopped(), os.Remove(filepath.Join(next.out, manifest.RunName))))
		must.Fail(t, fmt.Sprint(i), "run.json: is missing")(pipelines.RunPlan(t.Context(), next.sampled(graph, 2), pipelines.Options{}, pipelines.Settings{}))
		d.must(pipelines.RunPlan(t.Context(), d.sampled(graph, 2), pipelines.Options{}, how))
		got := next.files()
		got[manifest.RunName] = want[manifest.RunName] // but for its run id
		if !maps.Equal(got, want) {
			t.Errorf("%d: other files than of a copy that was not stopped", i)
		}
	}
}

// TestNothingIsOverwritten: no command changes a file of a run directory with results, whatever it
// asks for: a training may be using them.
func TestNothingIsOverwritten(t *testing.T) {
	d := newDirectory(t)
	d.must(d.run(t.Context(), 40, pipelines.Settings{}))
	other := d.in("other")
	other.must(other.run(t.Context(), 50, pipelines.Settings{}))
	before, beforeOther := d.files(), other.files()
	o := pipelines.Options{Out: d.out, KeyFile: d.key}
	poisson := sampling.Params{Scheme: "poisson", Steps: 3, Prob: .4}
	plan := func(change func(p *stages.Plan), how pipelines.Settings) func() error {
		return func() error {
			p := d.plan(40)
			change(&p)
			_, err := pipelines.RunPlan(t.Context(), p, pipelines.Options{}, how)
			return err
		}
	}
	same := func(*stages.Plan) {}
	for name, command := range map[string]func() error{
		"another plan":       plan(func(p *stages.Plan) { p.Examples = 41 }, pipelines.Settings{}),
		"other files":        plan(func(p *stages.Plan) { p.Noise.Shards = 2 }, pipelines.Settings{}),
		"another claim":      plan(func(p *stages.Plan) { p.Privacy.Epsilon = 3 }, pipelines.Settings{}),
		"again in its place": plan(same, pipelines.Settings{Again: d.out}),
		"again in another's": plan(same, pipelines.Settings{Again: other.out}),
		"again, of another":  plan(func(p *stages.Plan) { p.Out = other.out }, pipelines.Settings{Again: d.out}),
		"other batches": func() error {
			_, err := (pipelines.Form{Params: poisson, Examples: 40}).Run(t.Context(), o)
			return err
		},
		"another noise": func() error {
			_, err := (pipelines.Noise{Strategy: filepath.Join(d.out, "strategy/strategy.json"), Steps: 3, PlanNoise: stages.PlanNoise{Coordinates: 4, ClipNorm: 1}, FromCertificate: true}).Run(t.Context(), o)
			return err
		},
		"another certificate": func() error {
			_, err := (pipelines.Account{Params: poisson, Examples: 40, Bands: 1, PlanPrivacy: stages.PlanPrivacy{Epsilon: 4, Delta: 1e-2}}).Run(t.Context(), o)
			return err
		},
	} {
		if command() == nil {
			t.Errorf("%s: was not refused", name)
		}
		if !maps.Equal(before, d.files()) {
			t.Fatalf("%s: the directory was changed", name)
		}
		if !maps.Equal(beforeOther, other.files()) {
			t.Fatalf("%s: the other directory was changed", name)
		}
	}
	if r := d.must(d.run(t.Context(), 40, pipelines.Settings{})); strings.Contains(states(r), pipelines.StageDone) || !maps.Equal(before, d.files()) {
		t.Errorf("the same plan: %s", states(r))
	}
}

// TestFirstStageFails: nothing is left of a run whose first stage fails.
func TestFirstStageFails(t *testing.T) {
	d := newDirectory(t)
	graph := d.graph(3)
	must.Do(t, os.WriteFile(graph, []byte("example_id,owner_id\n1,1\n2\n"), 0o600))
	if _, err := pipelines.RunPlan(t.Context(), d.sampled(graph, 2), pipelines.Options{}, pipelines.Settings{}); err == nil || !strings.Contains(err.Error(), "graph.csv") {
		t.Fatalf("the graph was not refused: %v", err)
	}
	if _, err := os.Stat(d.out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
}

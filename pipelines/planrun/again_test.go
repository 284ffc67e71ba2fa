package planrun_test

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minsep/manifest"
	"minsep/mechanism"
	"minsep/pipelines"
	"minsep/pipelines/planrun"
	"minsep/sampling"
	"minsep/sampling/ownergraph"
	"minsep/sampling/stream"
	"minsep/stages"
)

// directory is a run directory with a key, for plans of numbered examples.
type directory struct {
	t          *testing.T
	key, out   string
	recipeOnly bool // without files of noise, which have random bytes of steps each time
}

func newDirectory(t *testing.T) directory {
	dir := t.TempDir()
	t.Setenv("XDG_STATE_HOME", filepath.Join(dir, "state"))
	d := directory{t: t, key: filepath.Join(dir, "key"), out: filepath.Join(dir, "run")}
	if err := stream.CreateKeyFile(d.key); err != nil {
		t.Fatal(err)
	}
	return d
}

// plan is the plan for a number of examples.
func (d directory) plan(examples int64) stages.Plan {
	return stages.Plan{
		Examples: examples,
		Scheme:   sampling.Params{Scheme: "poisson", Steps: 3, Prob: .5},
		Strategy: mechanism.Params{Kind: "identity", Steps: 3},
		Privacy:  stages.PlanPrivacy{Epsilon: 4, Delta: 1e-2},
		Noise:    stages.PlanNoise{Coordinates: 3, ClipNorm: 1, RecipeOnly: d.recipeOnly},
		Key:      d.key, Out: d.out,
	}
}

// run runs the plan for a number of examples.
func (d directory) run(ctx context.Context, examples int64, id byte, overwrite bool, how planrun.Settings) (planrun.RunResult, error) {
	o := pipelines.Options{Overwrite: overwrite}
	if id != 0 {
		o.RunID = stream.RunID{id}
	}
	return planrun.Run(ctx, d.plan(examples), o, how)
}

func (d directory) must(r planrun.RunResult, err error) planrun.RunResult {
	d.t.Helper()
	if err != nil {
		d.t.Fatal(err)
	}
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
	if err != nil {
		d.t.Fatal(err)
	}
	return all
}

func (d directory) noise() string {
	all := d.files()
	for name, content := range all {
		if strings.HasSuffix(name, "000002.npy") {
			return content
		}
	}
	d.t.Fatalf("no noise in %v", slices.Sorted(maps.Keys(all)))
	return ""
}

// used are the run ids that a directory has had before.
func (d directory) used() (replaced, earlier []stream.RunID) {
	d.t.Helper()
	run, err := manifest.ReadRun(d.t.Context(), d.out)
	if err != nil {
		d.t.Fatal(err)
	}
	return run.Replaced, run.Earlier
}

// refused says that a run id is refused, and that nothing is changed.
func (d directory) refused(examples int64, id byte, how planrun.Settings) {
	d.t.Helper()
	before := d.files()
	for _, overwrite := range []bool{true, false} {
		if how.Again && overwrite {
			continue
		}
		_, err := d.run(d.t.Context(), examples, id, overwrite, how)
		var bad *pipelines.ParamError
		if !errors.As(err, &bad) || bad.Param != "run id" || !strings.Contains(bad.Rule, "it served an earlier run of this directory") {
			d.t.Errorf("run id %d, overwrite %v, %+v: %v", id, overwrite, how, err)
		}
	}
	if !maps.Equal(before, d.files()) {
		d.t.Errorf("run id %d: the directory was changed", id)
	}
}

// TestNoRunIDComesBack: a run id that a directory had serves nothing in it again, also where
// another plan was there meanwhile, or began to be.
func TestNoRunIDComesBack(t *testing.T) {
	const a, b = 4, 5
	d := newDirectory(t)
	d.must(d.run(t.Context(), a, 1, false, planrun.Settings{}))
	first := d.noise()

	stopped, stop := context.WithCancel(t.Context())
	_, err := d.run(stopped, b, 2, true, planrun.Settings{Watch: func(string) func() { stop(); return func() {} }})
	if err == nil {
		t.Fatal("the run was not stopped")
	}
	if replaced, _ := d.used(); !slices.Equal(replaced, []stream.RunID{{1}}) {
		t.Errorf("replaced: %v", replaced)
	}
	d.refused(a, 1, planrun.Settings{})
	d.must(d.run(t.Context(), b, 0, true, planrun.Settings{}))
	d.refused(a, 1, planrun.Settings{})
	d.refused(b, 1, planrun.Settings{Again: true})

	d.must(d.run(t.Context(), b, 3, false, planrun.Settings{Again: true}))
	replaced, earlier := d.used()
	if !slices.Equal(replaced, []stream.RunID{{1}}) || !slices.Equal(earlier, []stream.RunID{{2}}) {
		t.Errorf("replaced %v, earlier %v", replaced, earlier)
	}
	d.refused(a, 2, planrun.Settings{})
	d.refused(a, 1, planrun.Settings{})

	// A next run that was stopped before its batches is not corrected into one of another plan.
	stopped, stop = context.WithCancel(t.Context())
	if _, err := d.run(stopped, b, 4, false, planrun.Settings{Again: true, Watch: func(string) func() { stop(); return func() {} }}); err == nil {
		t.Fatal("the run was not stopped")
	}
	if _, err := d.run(t.Context(), a, 0, false, planrun.Settings{}); err == nil || !strings.Contains(err.Error(), "belongs to another plan") {
		t.Errorf("another plan took the run id of a later run: %v", err)
	}
	d.must(d.run(t.Context(), b, 0, false, planrun.Settings{}))

	// A stage alone takes the directory's run id, and no other.
	strategy := filepath.Join(d.out, manifest.StrategyFolder, manifest.StrategyFile)
	for _, id := range []byte{1, 2} {
		o := pipelines.Options{Out: d.out, KeyFile: d.key, Overwrite: true, RunID: stream.RunID{id}}
		n := pipelines.Noise{Strategy: strategy, Steps: 3, NoiseMultiplier: 100, Coordinates: 3, ClipNorm: 1}
		if _, err := n.Run(t.Context(), o); err == nil {
			t.Errorf("noise of run id %d was made again", id)
		}
	}

	d.must(d.run(t.Context(), a, 0, true, planrun.Settings{}))
	if replaced, earlier := d.used(); !slices.Equal(replaced, []stream.RunID{{1}, {2}, {3}, {4}}) || earlier != nil {
		t.Errorf("replaced %v, earlier %v", replaced, earlier)
	}
	if d.noise() == first {
		t.Error("the noise of the first run was made again")
	}
	d.refused(b, 3, planrun.Settings{})
}

// TestRunIDsOutliveAFailure: where somebody has emptied a run directory but for its run.json, a
// plan whose first stage fails leaves the run ids of before.
func TestRunIDsOutliveAFailure(t *testing.T) {
	d := newDirectory(t)
	d.must(d.run(t.Context(), 4, 1, false, planrun.Settings{}))
	for _, folder := range []string{manifest.BatchesFolder, manifest.NoiseFolder, manifest.StrategyFolder, manifest.CertificateFile, manifest.LedgerFolder} {
		if err := os.RemoveAll(filepath.Join(d.out, folder)); err != nil {
			t.Fatal(err)
		}
	}
	graph := filepath.Join(t.TempDir(), "edges.csv")
	if err := os.WriteFile(graph, []byte("example_id,owner_id\n1,1\n2\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	fails := d.plan(0)
	fails.Graph, fails.Bound = &stages.PlanGraph{Paths: []string{graph}}, &ownergraph.Bound{MaxExamplesPerOwner: 1}
	_, err := planrun.Run(t.Context(), fails, pipelines.Options{Overwrite: true, RunID: stream.RunID{2}}, planrun.Settings{})
	if err == nil || !strings.Contains(err.Error(), "edges.csv") {
		t.Fatalf("the graph was not refused: %v", err)
	}
	if all := d.files(); len(all) != 1 {
		t.Fatalf("the directory has %v", slices.Sorted(maps.Keys(all)))
	}
	if replaced, _ := d.used(); !slices.Equal(replaced, []stream.RunID{{1}}) {
		t.Errorf("replaced: %v", replaced)
	}
	d.refused(4, 1, planrun.Settings{})

	// Without run ids of before, nothing is left.
	d.out = filepath.Join(t.TempDir(), "fresh")
	fails.Out = d.out
	if _, err := planrun.Run(t.Context(), fails, pipelines.Options{}, planrun.Settings{}); err == nil {
		t.Fatal("the graph was not refused")
	}
	if _, err := os.Stat(d.out); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the directory is left: %v", err)
	}
}

// TestStoppedBeforeTheNextRun: wherever run --again was killed before the new run id was written,
// a run makes the same files again, and run --again the next run's.
func TestStoppedBeforeTheNextRun(t *testing.T) {
	unfinished := func(folder string) {
		name := filepath.Join(folder, "incomplete.json")
		if err := os.WriteFile(name, []byte(`{"what": "test"}`), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	remove := func(path string) {
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
	}
	d := newDirectory(t)
	d.recipeOnly = true
	noise, batches := filepath.Join(d.out, manifest.NoiseFolder), filepath.Join(d.out, manifest.BatchesFolder)
	for i, killed := range []func(){
		func() { unfinished(noise) },
		func() { unfinished(noise); remove(filepath.Join(noise, manifest.RecipeFile)) },
		func() { unfinished(noise); remove(filepath.Join(noise, manifest.IndexName)) },
		func() { remove(noise) },
		func() { remove(noise); unfinished(batches) },
		func() { remove(noise); unfinished(batches); remove(filepath.Join(batches, manifest.IndexName)) },
		func() { remove(noise); remove(batches) },
	} {
		remove(d.out)
		remove(filepath.Join(filepath.Dir(d.key), "minsep-runs"))
		remove(filepath.Join(filepath.Dir(d.key), "state"))
		d.must(d.run(t.Context(), 4, 1, false, planrun.Settings{}))
		before := d.files()
		killed()
		d.must(d.run(t.Context(), 4, 0, false, planrun.Settings{}))
		if !maps.Equal(before, d.files()) {
			t.Errorf("state %d: a run made other files", i)
		}
		killed()
		d.must(d.run(t.Context(), 4, 2, false, planrun.Settings{Again: true}))
		if _, earlier := d.used(); !slices.Equal(earlier, []stream.RunID{{1}}) {
			t.Errorf("state %d: earlier %v", i, earlier)
		}
	}
}

// TestPagesAreRemoved: a page of minsep report goes before what it is of changes, and no other file
// of its name.
func TestPagesAreRemoved(t *testing.T) {
	d := newDirectory(t)
	page, other := filepath.Join(d.out, manifest.ReportPage), filepath.Join(d.out, manifest.SecretReportPage)
	d.must(d.run(t.Context(), 4, 1, false, planrun.Settings{Until: "account"}))
	write := func(content string) {
		for _, path := range []string{page, other} {
			if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	there := func(want bool) {
		t.Helper()
		for _, path := range []string{page, other} {
			if _, err := os.Stat(path); (err == nil) != want {
				t.Errorf("%s: %v", path, err)
			}
		}
	}
	of := "<!DOCTYPE html>\n" + manifest.ReportMark
	write(of)
	r := d.must(d.run(t.Context(), 4, 0, false, planrun.Settings{}))
	there(false)
	if len(r.Removed) != 2 {
		t.Errorf("removed: %v", r.Removed)
	}
	write(of)
	r = d.must(d.run(t.Context(), 4, 0, false, planrun.Settings{})) // nothing is made
	there(true)
	if r.Removed != nil {
		t.Errorf("removed: %v", r.Removed)
	}
	d.must(d.run(t.Context(), 4, 0, false, planrun.Settings{Again: true}))
	there(false)
	write("mine")
	d.must(d.run(t.Context(), 4, 0, false, planrun.Settings{Again: true}))
	there(true)
}

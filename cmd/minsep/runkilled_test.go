package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"minsep/sampling/stream"
)

// beCommand is set in the environment of a test binary that is to be the command.
const beCommand = "MINSEP_TEST_IS_COMMAND"

const killedPlan = `{
	"graph": {"paths": ["graph.tsv"], "header": "no"}, "bound": {"max_examples_per_owner": 1},
	"scheme": {"scheme": "b-min-sep", "steps": 64, "min_sep": 4, "batch_size": 200},
	"strategy": {"kind": "banded-toeplitz", "bands": 4},
	"privacy": {"epsilon": 2, "delta": 1e-3, "samples": 5000},
	"noise": {"coordinates": 60000, "steps_per_file": 8, "shards": 4},
	"batches": {"parquet": true},
	"key": "key", "out": "run",
}`

// killedRun is a folder with a plan, run by the command in processes of their own.
type killedRun struct {
	t   *testing.T
	dir string
}

func newKilledRun(t *testing.T) killedRun {
	t.Helper()
	k := killedRun{t, t.TempDir()}
	if err := stream.CreateKeyFile(filepath.Join(k.dir, "key")); err != nil {
		t.Fatal(err)
	}
	var graph strings.Builder
	for e := range 60_000 {
		fmt.Fprintf(&graph, "%d\t%d\n%d\t%d\n", e, e, e, 60_000+e/4)
	}
	for name, text := range map[string]string{"graph.tsv": graph.String(), "plan.json": killedPlan} {
		if err := os.WriteFile(filepath.Join(k.dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return k
}

func (k killedRun) command() *exec.Cmd {
	c := exec.Command(os.Args[0], "run", "plan.json", "--run-id", "000000000000000000000000000000ab", "--quiet")
	c.Env = append(os.Environ(), beCommand+"=1")
	c.Dir = k.dir
	return c
}

// whole runs the plan to its end and lists what it left, beside the key too: mode and SHA-256 of every file.
func (k killedRun) whole() map[string]string {
	k.t.Helper()
	if out, err := k.command().CombinedOutput(); err != nil {
		k.t.Fatalf("%v\n%s", err, out)
	}
	return hashes(k.t, k.dir)
}

// clean removes what runs left. The noise's recipe names the key's path, and a run id serves one directory: every run is in the same place.
func (k killedRun) clean() {
	k.t.Helper()
	for _, name := range []string{"run", "key.runs"} {
		if err := os.RemoveAll(filepath.Join(k.dir, name)); err != nil {
			k.t.Fatal(err)
		}
	}
}

// kill starts the command, ends it after a while with no warning, and says which stages' results it left, "killed in form" for instance.
func (k killedRun) kill(after time.Duration) (where string, killed bool) {
	k.t.Helper()
	c := k.command()
	if err := c.Start(); err != nil {
		k.t.Fatal(err)
	}
	time.Sleep(after)
	killed = c.Process.Kill() == nil
	if err := c.Wait(); err == nil {
		return "at its end", false
	}
	for _, stage := range []struct{ name, result string }{{"bound", "bounded/index.json"}, {"strategy", "strategy/index.json"},
		{"account", "certificate.json"}, {"form", "batches/index.json"}, {"noise", "noise/index.json"}} {
		if _, err := os.Stat(filepath.Join(k.dir, "run", filepath.FromSlash(stage.result))); err != nil {
			return "in " + stage.name, killed
		}
	}
	return "at its end", killed
}

// A run that is killed, at any moment, and run again leaves the bytes of one that was not, and nothing else.
func TestRunKilled(t *testing.T) {
	times := 50
	if testing.Short() {
		times = 3
	}
	k := newKilledRun(t)
	begin := time.Now()
	want := k.whole()
	took := time.Since(begin)
	if len(want) < 40 {
		t.Fatalf("a run left %d files: %v", len(want), want)
	}
	if took > 3*time.Second {
		t.Logf("an undisturbed run took %v", took)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	var moments []string
	places := map[string]int{}
	all, tries := 0, 0
	for ; all < times && tries < 2*times; tries++ { // those that end first are resumed as well, and not counted
		k.clean()
		after := time.Duration(rng.Float64() * float64(took))
		where, killed := k.kill(after)
		moments = append(moments, fmt.Sprintf("%v %s", after.Round(time.Millisecond), where))
		places[where]++
		if killed {
			all++
		}
		if diff := cmp.Diff(want, k.whole()); diff != "" {
			t.Fatalf("killed after %v, %s (-undisturbed +resumed):\n%s", after, where, diff)
		}
	}
	t.Logf("%d of %d runs of %v were killed: %v\n%s", all, tries, took, places, strings.Join(moments, ", "))
	if all < times {
		t.Errorf("%d runs were killed, want %d", all, times)
	}
}

// One directory, killed again and again before the run that ends.
func TestRunKilledAgainAndAgain(t *testing.T) {
	kills := 12
	if testing.Short() {
		kills = 3
	}
	k := newKilledRun(t)
	begin := time.Now()
	want := k.whole()
	took := time.Since(begin)
	k.clean()
	rng := rand.New(rand.NewPCG(3, 4))
	var places []string
	for range kills {
		where, _ := k.kill(time.Duration((.02 + .28*rng.Float64()) * float64(took))) // what is left gets shorter
		places = append(places, where)
	}
	t.Logf("killed %s", strings.Join(places, ", "))
	if slices.Equal(slices.Compact(places), []string{"at its end"}) {
		t.Error("no run was killed")
	}
	if diff := cmp.Diff(want, k.whole()); diff != "" {
		t.Fatalf("(-undisturbed +resumed):\n%s", diff)
	}
}

// hashes lists the files below a folder with their modes and SHA-256.
func hashes(t *testing.T, dir string) map[string]string {
	t.Helper()
	list := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		list[name] = fmt.Sprintf("%v %x", info.Mode(), sha256.Sum256(b))
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return list
}

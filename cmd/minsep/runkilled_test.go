package main

import (
	"crypto/sha256"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"minsep/internal/killtest"
	"minsep/internal/stream"
)

// beCommand is set in the environment of a test binary that is to be the command.
const beCommand = "MINSEP_TEST_IS_COMMAND"

const killedPlan = `{
	"graph": {"paths": ["graph.tsv"], "header": "no"}, "bound": {"max_examples_per_owner": 1},
	"scheme": {"scheme": "b-min-sep", "steps": 64, "min_sep": 4, "batch_size": 200},
	"strategy": {"kind": "banded-toeplitz", "bands": 4},
	"privacy": {"epsilon": 2, "delta": 1e-3, "samples": 5000},
	"noise": {"coordinates": 60000, "files": true, "steps_per_file": 8, "shards": 4},
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
	c := exec.Command(os.Args[0], "run", "plan.json", "--run-id=000000000000000000000000000000ab", "--quiet")
	c.Env = append(os.Environ(), beCommand+"=1")
	c.Dir = k.dir
	return c
}

// whole runs the plan to its end and lists what it left: mode and SHA-256 of every file.
func (k killedRun) whole() map[string]string {
	k.t.Helper()
	if out, err := k.command().CombinedOutput(); err != nil {
		k.t.Fatalf("%v\n%s", err, out)
	}
	return hashes(k.t, k.dir)
}

// clean removes what a run left. The noise's recipe names the key's path: every run is in the same
// place.
func (k killedRun) clean() {
	k.t.Helper()
	if err := os.RemoveAll(filepath.Join(k.dir, "run")); err != nil {
		k.t.Fatal(err)
	}
}

// moments are what a run leaves while it works, in the order in which it comes to be.
func (k killedRun) moments() (list []killtest.Moment) {
	for _, m := range []killtest.Moment{
		{Glob: "run"}, {Glob: "run/lock"}, {Glob: "run/bounded"}, {Glob: "run/bounded/*"}, {Glob: "run/bounded/index.json"},
		{Glob: "run/strategy/index.json"}, {Glob: "run/ledger/protocol.json"}, {Glob: "run/ledger/units.log", Lines: 1},
		{Glob: "run/certificate.json"}, {Glob: "run/batches/*"}, {Glob: "run/batches/*", Files: 3}, {Glob: "run/batches/index.json"},
		{Glob: "run/noise/shard-*"}, {Glob: "run/noise/shard-*/steps-*", Files: 1}, {Glob: "run/noise/shard-*/steps-*", Files: 9},
		{Glob: "run/noise/shard-*/steps-*", Files: 20},
	} {
		m.Glob = filepath.Join(k.dir, filepath.FromSlash(m.Glob))
		list = append(list, m)
	}
	return list
}

// kill starts the command and ends it with no warning after a moment, and says which stages'
// results it left, "in form" for instance.
func (k killedRun) kill(m killtest.Moment, looks int) (where string, killed bool) {
	k.t.Helper()
	killed, _ = killtest.Once(k.t, k.command(), m, looks, os.Kill)
	for _, stage := range []struct{ name, result string }{{"bound", "bounded/index.json"}, {"strategy", "strategy/index.json"},
		{"account", "certificate.json"}, {"form", "batches/index.json"}, {"noise", "noise/index.json"}} {
		if _, err := os.Stat(filepath.Join(k.dir, "run", filepath.FromSlash(stage.result))); err != nil {
			return "in " + stage.name, killed
		}
	}
	return "at its end", killed
}

// maxLooks is how often, at most, a test looks again after the moment before it kills: what comes
// between two moments is hit as well.
const maxLooks = 30

// A run that is killed, whatever it has done by then, and run again leaves the bytes of one that
// was not, and nothing else.
func TestRunKilled(t *testing.T) {
	t.Parallel()
	k := newKilledRun(t)
	want := k.whole()
	if len(want) < 40 {
		t.Fatalf("a run left %d files: %v", len(want), want)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	for i, m := range k.moments() {
		if testing.Short() && i%5 != 0 {
			continue
		}
		where, killed := "", false
		for tries := 0; !killed; tries++ { // one that ended before it was killed is resumed as well, below, if it is the last
			if tries == 20 {
				t.Fatalf("no run was killed at %v", m)
			}
			k.clean()
			where, killed = k.kill(m, rng.IntN(maxLooks)/(tries+1))
		}
		t.Logf("killed at %v: %s", m, where)
		if diff := cmp.Diff(want, k.whole()); diff != "" {
			t.Fatalf("killed at %v, %s (-undisturbed +resumed):\n%s", m, where, diff)
		}
	}
}

// One directory, killed again and again, a little later each time, before the run that ends.
func TestRunKilledAgainAndAgain(t *testing.T) {
	t.Parallel()
	k := newKilledRun(t)
	want := k.whole()
	k.clean()
	var places []string
	kills := 0
	for _, m := range k.moments() {
		where, killed := k.kill(m, 0)
		places = append(places, where)
		if killed {
			kills++
		}
	}
	t.Logf("killed %d times: %s", kills, strings.Join(places, ", "))
	if places[0] != "in bound" || kills < 8 {
		t.Errorf("%d runs were killed, the first %s", kills, places[0])
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
		if filepath.Base(filepath.Dir(name)) == "noise" || strings.Contains(filepath.ToSlash(name), "noise/shard-") || filepath.Base(name) == "run.json" {
			list[name] = fmt.Sprintf("%v %d bytes", info.Mode(), len(b)) // noise has random bytes of steps, and run.json its SHA-256
		}
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return list
}

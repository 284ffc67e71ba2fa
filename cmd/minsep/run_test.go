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
	"time"

	"github.com/google/go-cmp/cmp"

	"minsep/sampling/stream"
)

// beCommand is set in the environment of a test binary that is to be the command.
const beCommand = "MINSEP_TEST_IS_COMMAND"

const killedPlan = `{
	"graph": {"paths": ["graph.tsv"], "header": "no"}, "bound": {"max_examples_per_owner": 1},
	"scheme": {"scheme": "b-min-sep", "steps": 64, "min_sep": 4, "batch_size": 20},
	"strategy": {"kind": "banded-toeplitz", "bands": 4},
	"privacy": {"epsilon": 2, "delta": 1e-3, "samples": 100000},
	"noise": {"coordinates": 100000, "steps_per_file": 8, "shards": 4},
	"batches": {"parquet": true},
	"key": "key", "out": "run",
}`

// A run that is killed, at any moment, and run again leaves the bytes of one that was not.
func TestRunKilled(t *testing.T) {
	times := 10
	if testing.Short() {
		times = 2
	}
	dir := t.TempDir()
	if err := stream.CreateKeyFile(filepath.Join(dir, "key")); err != nil {
		t.Fatal(err)
	}
	var graph strings.Builder
	for e := range 3000 {
		fmt.Fprintf(&graph, "%d\t%d\n%d\t%d\n", e, e, e, 3000+e/4)
	}
	for name, text := range map[string]string{"graph.tsv": graph.String(), "plan.json": killedPlan} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	command := func() *exec.Cmd {
		c := exec.Command(os.Args[0], "run", "plan.json", "--run-id", "000000000000000000000000000000ab", "--quiet")
		c.Env = append(os.Environ(), beCommand+"=1")
		c.Dir = dir
		return c
	}
	whole := func() map[string]string {
		if out, err := command().CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return hashes(t, filepath.Join(dir, "run"))
	}
	// The noise's recipe names the key's path, and a run id serves one directory: every run is in the same place.
	clean := func() {
		for _, name := range []string{"run", "key.runs"} {
			if err := os.RemoveAll(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	begin := time.Now()
	want := whole()
	took := time.Since(begin)
	if len(want) < 40 {
		t.Fatalf("a run left %d files: %v", len(want), want)
	}
	rng := rand.New(rand.NewPCG(1, 2))
	killed := 0
	for range times {
		clean()
		c := command()
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Duration(rng.Float64() * float64(took)))
		if err := c.Process.Kill(); err == nil {
			killed++
		}
		c.Wait()
		left := len(hashes(t, filepath.Join(dir, "run")))
		if diff := cmp.Diff(want, whole()); diff != "" {
			t.Fatalf("after a kill that left %d files (-whole +resumed):\n%s", left, diff)
		}
	}
	t.Logf("%d of %d runs of %v were killed", killed, times, took)
	if killed == 0 {
		t.Error("no run was killed")
	}
}

// hashes lists the files below a folder with their modes and SHA-256.
func hashes(t *testing.T, dir string) map[string]string {
	list := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		b, err := os.ReadFile(path)
		name, _ := filepath.Rel(dir, path)
		list[name] = fmt.Sprintf("%v %x", d.Type(), sha256.Sum256(b))
		return err
	})
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	return list
}

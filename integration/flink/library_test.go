package flink_test

import (
	"os/exec"
	"path/filepath"
	"testing"

	"minsep/internal/manifest"
	"minsep/internal/stream"
)

// TestLibrary runs programs of examples, which use minsep as a library, in workers of a pool of the
// command: each is the program of its workers.
func TestLibrary(t *testing.T) {
	k := loopback(t)
	poolOf(t, k, build(t, "minsep/cmd/minsep"))
	for _, name := range []string{"pairs", "join", "noise"} {
		dir, program := t.TempDir(), build(t, "minsep/examples/"+name)
		key, run := filepath.Join(dir, "key"), filepath.Join(dir, "run")
		if err := stream.CreateKeyFile(key); err != nil {
			t.Fatal(err)
		}
		args := append(k.PoolFlags(2, program), "--run", run, "--key", key)
		if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s; look at %s", name, err, out, k.Logs())
			continue
		}
		if name == "join" { // it leaves no files
			continue
		}
		batches, err := manifest.OpenBatches(t.Context(), filepath.Join(run, manifest.BatchesFolder))
		if err != nil {
			t.Fatal(err)
		}
		if err := batches.Index.Verify(t.Context(), batches.Dir); err != nil {
			t.Error(err)
		}
	}
}

package flink_test

import (
	"context"
	"log/slog"
	"net"
	"os/exec"
	"path/filepath"
	"testing"

	"minsep/internal/manifest"
	"minsep/internal/stream"
	"minsep/internal/worker"
)

// TestLibrary runs programs of examples, which use minsep as a library, in workers of a pool of the
// command: each is the program of its workers. Beam's own workers wait after their job until they
// are ended, which the end of the pool does.
func TestLibrary(t *testing.T) {
	k := loopback(t)
	pool := &worker.Pool{Program: build(t, "minsep/cmd/minsep"), Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- pool.Serve(ctx, listener) }()
	defer func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}()
	for _, name := range []string{"pairs", "join", "noise"} {
		dir, program := t.TempDir(), build(t, "minsep/examples/"+name)
		key, run := filepath.Join(dir, "key"), filepath.Join(dir, "run")
		if err := stream.CreateKeyFile(key); err != nil {
			t.Fatal(err)
		}
		out, err := exec.CommandContext(t.Context(), program, "--run", run, "--key", key, "--runner=flink",
			"--endpoint="+k.Endpoint, "--environment_type=EXTERNAL", "--environment_config="+listener.Addr().String(),
			"--worker_binary="+program, "--parallelism=2").CombinedOutput()
		if err != nil {
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

package flink_test

import (
	"context"
	"log/slog"
	"net"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"minsep/integration/flink"
	"minsep/internal/manifest"
	"minsep/internal/stream"
	"minsep/internal/worker"
	"minsep/minseptest"
)

// poolHere serves workers from this process until the test ends, and returns the flags of programs
// that run there. Beam's own workers wait after their job until they are ended, which the end of the
// pool does.
func poolHere(t *testing.T, k *flink.Cluster) []string {
	t.Helper()
	pool := &worker.Pool{Program: build(t, "minsep/cmd/minsep"), Dir: t.TempDir(), Log: slog.New(slog.DiscardHandler)}
	listener, err := net.Listen("tcp", "localhost:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- pool.Serve(ctx, listener) }()
	t.Cleanup(func() {
		end()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	return []string{"--runner=flink", "--endpoint=" + k.Endpoint, "--environment_type=EXTERNAL",
		"--environment_config=" + listener.Addr().String(), "--parallelism=2"}
}

// TestLibrary runs programs of examples, which use minsep as a library, in workers of a pool of the
// command: each is the program of its workers.
func TestLibrary(t *testing.T) {
	k := loopback(t)
	flags := poolHere(t, k)
	for name, written := range map[string]bool{"pairs": true, "join": false, "noise": true, "law": false} {
		t.Run(name, func(t *testing.T) {
			dir, program := t.TempDir(), build(t, "minsep/examples/"+name)
			key, run := filepath.Join(dir, "key"), filepath.Join(dir, "run")
			if err := stream.CreateKeyFile(key); err != nil {
				t.Fatal(err)
			}
			args := append([]string{"--run", run, "--key", key, "--worker_binary=" + program}, flags...)
			if name == "law" {
				args = append(args, "--shared", t.TempDir(), "--file", filepath.Join(dir, "law.json"))
			}
			if out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s; look at %s", err, out, k.Logs())
			}
			if !written {
				return
			}
			batches, err := manifest.OpenBatches(t.Context(), filepath.Join(run, manifest.BatchesFolder))
			if err != nil {
				t.Fatal(err)
			}
			if err := batches.Index.Verify(t.Context(), batches.Dir); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestFaultOfLibrary: a fault that only counted examples show reaches the user in a line, without
// Beam's plan.
func TestFaultOfLibrary(t *testing.T) {
	flags, program := poolHere(t, loopback(t)), build(t, "minsep/integration/library")
	args := append([]string{"--pipeline=b-min-sep", "--batch-size=1e6", "--folder", t.TempDir(), "--worker_binary=" + program}, flags...)
	out, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	if last := lines[len(lines)-1]; err == nil || !strings.Contains(last, "batch size 1e+06: must be at most ") || len(last) > 200 {
		t.Errorf("%v: %s", err, out)
	}
}

// TestClusterLibrary runs a program that uses all transforms on two TaskManagers, of which one is
// killed in the middle. Its batches must be those of the direct runner.
func TestClusterLibrary(t *testing.T) {
	program := build(t, "minsep/integration/library")
	k, _ := cluster(t, program)
	here, there := t.TempDir(), t.TempDir()
	args := append([]string{"--pipeline=shuffle", "--folder", there, "--worker_binary=" + program}, poolHere(t, k)...)
	job := exec.CommandContext(t.Context(), program, args...)
	var said strings.Builder
	job.Stdout, job.Stderr = &said, &said
	if err := job.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- job.Wait() }()
	for fault, done := replaceTaskManager(6), false; !done; {
		select {
		case err := <-ended:
			t.Fatalf("the job ended before its fault: %v: %s", err, said.String())
		case <-time.After(50 * time.Millisecond):
			done = fault(t, k)
		}
	}
	if err := <-ended; err != nil {
		t.Fatalf("%v: %s; look at %s", err, said.String(), k.Logs())
	}
	if restarts(t, k) == 0 {
		t.Error("no job began again: the fault came too late, or did nothing")
	}
	if out, err := exec.CommandContext(t.Context(), program, "--pipeline=shuffle", "--folder", here).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	err := minseptest.SameBatches(t.Context(), filepath.Join(there, minseptest.RunFolder), filepath.Join(here, minseptest.RunFolder))
	if err != nil {
		t.Error(err)
	}
}

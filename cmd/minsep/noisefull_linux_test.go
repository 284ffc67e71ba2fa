package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"minsep/internal/must"
	"minsep/internal/stream"
)

// Noise on a full disk keeps the files that are finished, and goes on from there once there is
// room.
func TestNoiseOnAFullDisk(t *testing.T) {
	dir, disk := t.TempDir(), t.TempDir()
	if err := syscall.Mount("tmpfs", disk, "tmpfs", 0, "size=1m"); err != nil {
		t.Skipf("a small file system cannot be mounted: %v", err)
	}
	t.Cleanup(func() { syscall.Unmount(disk, 0) })
	t.Setenv("TMPDIR", dir)
	key, strategy, run := filepath.Join(dir, "key"), filepath.Join(dir, "s.json"), filepath.Join(disk, "run")
	call := func(args ...string) (int, string) {
		os.Setenv("TMPDIR", dir) // which a command sets for its process
		var out bytes.Buffer
		code := execute(context.Background(), args, &out, &out)
		return code, out.String()
	}
	must.Do(t, stream.CreateKeyFile(key))
	if code, out := call("strategy", "--kind", "toeplitz", "--column", "1", "--steps", "64", "--out", strategy); code != exitOK {
		t.Fatal(out)
	}
	noise := func(out string) (int, string) {
		return call("noise", "--files", "--strategy", strategy, "--noise-multiplier", "2", "--steps", "64", "--coordinates", "1000", "--steps-per-file", "8",
			"--key", key, "--out", out)
	}
	ballast := filepath.Join(disk, "ballast")
	if err := os.WriteFile(ballast, make([]byte, 864<<10), 0o600); err != nil { // 160 KiB are left for 8 files of 32
		t.Fatal(err)
	}
	code, out := noise(run)
	if _, err := os.Stat(run); code != exitUsage || err == nil || !strings.Contains(out, "has no room: about 256,000 bytes are needed for noise") || !strings.Contains(out, "--files") {
		t.Fatalf("without room: exit code %d: %s", code, out)
	}
	if err := os.MkdirAll(filepath.Join(run, "noise"), 0o700); err != nil { // part of the noise may be there: there is no refusal beforehand
		t.Fatal(err)
	}
	code, out = noise(run)
	if want := "minsep: folder " + filepath.Join(run, "noise") + ": no space left on device"; !strings.Contains(out, want) || strings.Contains(out, "DoFn") {
		t.Errorf("%q, want %q and no task", out, want)
	}
	if code != exitFailure || !strings.Contains(out, "no space left on device") || !strings.Contains(out, "make room and repeat") {
		t.Fatalf("exit code %d: %s", code, out)
	}
	kept, err := filepath.Glob(filepath.Join(run, "noise", "shard-*", "steps-*.npy"))
	if err != nil || len(kept) == 0 || len(kept) == 8 {
		t.Fatalf("%d files are kept (%v)", len(kept), err)
	}
	first, err := os.Stat(kept[0])
	if err = errors.Join(err, os.Remove(ballast)); err != nil {
		t.Fatal(err)
	}
	if code, out := noise(run); code != exitOK {
		t.Fatalf("with room: exit code %d: %s", code, out)
	}
	if again, err := os.Stat(kept[0]); err != nil || !os.SameFile(first, again) {
		t.Errorf("a finished file was made again (%v)", err)
	}
	if code, out := call("inspect", run); code != exitOK {
		t.Errorf("%d: %s", code, out)
	}
}

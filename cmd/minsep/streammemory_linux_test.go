package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"minsep/internal/must"
	"minsep/internal/stream"
)

// TestStreamsMemory: a stream of noise takes its rows, bands-1 of float64, and less than 128 MB, at
// any time until its last row.
func TestStreamsMemory(t *testing.T) {
	const steps, bands, coordinates = 96, 32, 200_000
	dir := t.TempDir()
	t.Setenv("TMPDIR", dir) // which a command sets for its process
	key, strategy, run := filepath.Join(dir, "key"), filepath.Join(dir, "s.json"), filepath.Join(dir, "run")
	must.Do(t, stream.CreateKeyFile(key))
	for _, args := range [][]string{
		{"strategy", "--kind", "banded-toeplitz", "--bands", fmt.Sprint(bands), "--steps", fmt.Sprint(steps), "--out", strategy},
		{"noise", "--files", "--strategy", strategy, "--noise-multiplier", "2", "--steps", fmt.Sprint(steps), "--coordinates", fmt.Sprint(coordinates), "--key", key, "--out", run},
	} {
		var out bytes.Buffer
		if code := execute(context.Background(), args, &out, &out); code != exitOK {
			t.Fatal(out.String())
		}
	}
	program := must.Get(os.Executable())(t)
	cmd := exec.Command(program, "noise", "--stream", "--key", key, "--out", run)
	cmd.Stdin = bytes.NewReader(make([]byte, 16*steps)) // the bytes of the steps
	cmd.Env = append(os.Environ(), beCommand+"=1", "TMPDIR="+dir)
	var said bytes.Buffer
	cmd.Stderr = &said
	out := must.Get(cmd.StdoutPipe())(t)
	must.Do(t, cmd.Start())
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	if _, err := io.CopyN(io.Discard, out, 4096+4*coordinates*(steps-1)); err != nil { // the last row is more than a pipe holds
		cmd.Wait()
		t.Fatal(err, said.String())
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", cmd.Process.Pid))
	if err != nil {
		t.Skip(err)
	}
	_, peak, _ := strings.Cut(string(status), "VmHWM:")
	peak, _, _ = strings.Cut(peak, " kB")
	kib, err := strconv.Atoi(strings.TrimSpace(peak))
	if err != nil {
		t.Fatalf("%s: %v", status, err)
	}
	t.Logf("%d KiB, of which rows %d", kib, 8*(bands-1)*coordinates>>10)
	if more := kib<<10 - 8*(bands-1)*coordinates; more > 128e6 || more < 0 {
		t.Errorf("%d MB beside the rows, want at most 128", more/1e6)
	}
}

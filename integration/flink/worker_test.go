package flink_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"

	"minsep/internal/must"
)

// A worker that starts removes the folders of workers that are gone, and no other. It stands in for
// Beam's boot program with `true`, so that its own folder goes too.
func TestWorkerRemovesWhatOthersLeft(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("worker.sh is for Linux")
	}
	for _, program := range []string{"bash", "setsid", "pgrep"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("%s is not here", program)
		}
	}
	work := t.TempDir()
	gone := exec.Command("true")
	must.Do(t, gone.Run())
	dead, alive := filepath.Join(work, fmt.Sprintf("worker.%d.abc", gone.Process.Pid)), filepath.Join(work, fmt.Sprintf("worker.%d.abc", os.Getpid()))
	for _, dir := range []string{dead, alive} {
		must.Do(t, os.Mkdir(dir, 0o700))
		must.Do(t, os.WriteFile(filepath.Join(dir, "spilled"), []byte("rows"), 0o600))
	}
	worker := exec.Command("./worker.sh")
	worker.Env = append(os.Environ(), "BEAM_BOOT=true", "BEAM_WORK="+work)
	if out, err := worker.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	if _, err := os.Stat(dead); err == nil {
		t.Error("the folder of a worker that is gone is left")
	}
	if _, err := os.Stat(filepath.Join(alive, "spilled")); err != nil {
		t.Error(err)
	}
	for left := []os.DirEntry(nil); len(left) != 1; { // until the test's own limit: another process removes the worker's folder
		var err error
		if left, err = os.ReadDir(work); err != nil {
			t.Fatal(err)
		}
	}
}

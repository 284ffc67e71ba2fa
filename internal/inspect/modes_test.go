package inspect

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/google/go-cmp/cmp"

	"minsep/internal/must"
)

// TestExposed: files that group or others can read are counted in every secret folder, also
// below it, and folders that they can enter are named; public files and what is closed are not.
func TestExposed(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes")
	}
	run := t.TempDir()
	file := func(name string, mode os.FileMode) {
		t.Helper()
		at := filepath.Join(run, name)
		must.Do(t, os.MkdirAll(filepath.Dir(at), 0o700))
		must.Do(t, os.WriteFile(at, nil, 0o600))
		must.Do(t, os.Chmod(at, mode))
	}
	check := func(want ...Exposed) {
		t.Helper()
		if diff := cmp.Diff(want, exposedModes(t.Context(), run)); diff != "" {
			t.Error(diff)
		}
	}
	for _, name := range []string{"batches/a", "batches/b", "noise/part/c", "states/shard-00000-of-00001-step-000010"} {
		file(name, 0o600)
	}
	file("bounded/part", 0o644)
	file("states/notes", 0o644)
	file("other/notes", 0o644)
	must.Do(t, os.Chmod(filepath.Join(run, "bounded"), 0o755))
	check()

	in := func(name string) string { return filepath.Join(run, name) }
	for name, mode := range map[string]os.FileMode{"batches/a": 0o644, "batches/b": 0o640, "noise/part/c": 0o604, "states/shard-00000-of-00001-step-000010": 0o666,
		"other": 0o711} {
		must.Do(t, os.Chmod(in(name), mode))
	}
	check(Exposed{in("batches"), 2, false}, Exposed{in("noise"), 1, false}, Exposed{in("states"), 1, false})
}

package pipelines

import (
	"os"
	"path/filepath"
	"testing"

	"minsep/internal/must"
)

// A log of units that was put aside by a command that was stopped is not replaced by the shorter
// one that has come to be since, which may be empty; a longer one replaces it.
func TestPutUnitsAside(t *testing.T) {
	for _, c := range []struct{ now, before, want string }{
		{"one\n", "", "one\n"},
		{"", "one\n", "one\n"},
		{"one\n", "one\ntwo\n", "one\ntwo\n"},
		{"one\ntwo\n", "one\n", "one\ntwo\n"},
		{"one\n", "one\n", "one\n"},
	} {
		dir := t.TempDir()
		from, to := filepath.Join(dir, "units.log"), filepath.Join(dir, "earlier.log")
		for path, text := range map[string]string{from: c.now, to: c.before} {
			if path == to && text == "" {
				continue
			}
			must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		}
		must.Do(t, putUnitsAside(from, to))
		if got, err := os.ReadFile(to); err != nil || string(got) != c.want {
			t.Errorf("%q put aside over %q: %q, %v", c.now, c.before, got, err)
		}
		if _, err := os.Stat(from); !os.IsNotExist(err) {
			t.Errorf("%q put aside over %q is still there: %v", c.now, c.before, err)
		}
	}
	if err := putUnitsAside(filepath.Join(t.TempDir(), "units.log"), "earlier.log"); err != nil {
		t.Errorf("without units: %v", err)
	}
}

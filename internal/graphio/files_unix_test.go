//go:build unix

package graphio_test

import (
	"path/filepath"
	"syscall"
	"testing"

	"minsep/internal/graphio"
)

// TestPipesAreRefused: at once, though nobody writes to them, by their names and in a folder.
func TestPipesAreRefused(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mkfifo(filepath.Join(dir, "g.csv"), 0o600); err != nil {
		t.Skipf("no pipes: %v", err)
	}
	for _, path := range []string{dir, filepath.Join(dir, "g.csv"), filepath.Join(dir, "*"), "/dev/null", "/dev/zero"} {
		refuses(t, filepath.Base(path), path, graphio.Options{Format: graphio.CSV}, "not a regular file: a graph is read more than once: copy it into one")
	}
}

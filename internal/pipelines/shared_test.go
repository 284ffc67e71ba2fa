package pipelines

import (
	"path/filepath"
	"testing"

	"minsep/internal/manifest"
	"minsep/internal/must"
)

// TestSharedDirOfAKilledProcess: a stage may begin again in the folder.
func TestSharedDirOfAKilledProcess(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "bounded")
	must.Get(manifest.Begin(dir, false))(t)
	_, _, err := (engine{runner: DefaultRunner}).sharedDir(t.Context(), dir)
	must.Do(t, err)
	must.Get(manifest.Begin(dir, false))(t)
}

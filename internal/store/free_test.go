package store

import (
	"path/filepath"
	"runtime"
	"testing"
)

// TestFree: the room of a folder is that of the first folder above it that is there; that of an
// object store is not known.
func TestFree(t *testing.T) {
	dir := t.TempDir()
	here, known := Free(dir)
	if known != (runtime.GOOS == "linux" || runtime.GOOS == "darwin") || known && here <= 0 {
		t.Errorf("%d bytes, known: %v", here, known)
	}
	if _, below := Free(filepath.Join(dir, "not", "there")); below != known {
		t.Errorf("below a folder: known: %v", below)
	}
	if _, known := Free("gs://bucket/run"); known {
		t.Error("the room of an object store is known")
	}
}

package store

import (
	"os"
	"path/filepath"
)

// Free returns the number of bytes that can still be written to a folder, which need not exist yet.
// known is false for object stores, and where the system does not tell.
func Free(dir string) (bytes int64, known bool) {
	if Shared(dir) {
		return 0, false
	}
	dir, err := Abs(dir)
	if err != nil {
		return 0, false
	}
	for {
		if info, err := os.Stat(dir); err == nil && info.IsDir() {
			return free(dir)
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return 0, false
		}
		dir = parent
	}
}

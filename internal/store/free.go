package store

import (
	"os"
	"path/filepath"
)

// Free is how many bytes may still be written to a folder, which need not be there yet. It is not
// known of object stores.
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

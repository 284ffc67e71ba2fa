package manifest

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"minsep/internal/must"
	"minsep/internal/store"
)

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestLongRunFile: run.json is small, and one that is not is not read.
func TestLongRunFile(t *testing.T) {
	dir := t.TempDir()
	text := fmt.Sprintf(`{"format":%q,"minsep_version":%q}`, RunFormat, strings.Repeat("0", 32<<20))
	must.Do(t, os.WriteFile(filepath.Join(dir, RunName), []byte(text), 0o600))
	var err error
	took := allocated(func() { _, err = ReadRun(t.Context(), dir) })
	if _, long := errors.AsType[*store.TooLongError](err); !long || took > 1<<20 {
		t.Errorf("%d bytes are allocated for one of %d: %v", took, len(text), err)
	}
}

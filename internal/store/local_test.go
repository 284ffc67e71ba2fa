//go:build unix

package store_test

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"minsep/internal/must"
	"minsep/internal/store"
)

// What is not a regular file is refused at once: opening a pipe without a writer would wait for
// ever.
func TestOnlyRegularFilesAreOpened(t *testing.T) {
	dir := t.TempDir()
	pipe, link, loop := filepath.Join(dir, "pipe"), filepath.Join(dir, "link"), filepath.Join(dir, "loop")
	must.Do(t, errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink(pipe, link), os.Symlink(loop, loop)))
	for _, name := range []string{dir, pipe, link, "/dev/zero"} {
		if _, err := store.Open(t.Context(), name); !errors.Is(err, store.ErrNotRegular) {
			t.Errorf("open %s: %v", name, err)
		}
		if _, err := store.ReadFile(t.Context(), name, 100); !errors.Is(err, store.ErrNotRegular) {
			t.Errorf("read %s: %v", name, err)
		}
	}
	if _, err := store.Open(t.Context(), loop); !errors.Is(err, syscall.ELOOP) {
		t.Errorf("a loop of links: %v", err)
	}
	file := filepath.Join(dir, "file")
	must.Do(t, errors.Join(os.WriteFile(file, []byte("data"), 0o600), os.Remove(link), os.Symlink(file, link)))
	if b, err := store.ReadFile(t.Context(), link, 100); err != nil || string(b) != "data" {
		t.Errorf("a link to a file: %q, %v", b, err)
	}
}

// A file that has a size and no contents is refused before it is read through.
func TestHollowFiles(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	must.Do(t, errors.Join(os.WriteFile(name, []byte(`{"a": 1}`), 0o600), os.Truncate(name, 1<<29)))
	before := allocated()
	if _, err := store.ReadText(t.Context(), name, 1<<40); !errors.Is(err, store.ErrNotText) {
		t.Errorf("a hollow text: %v", err)
	}
	if took := allocated() - before; took > 1<<20 {
		t.Errorf("%d bytes of memory for a text of 8", took)
	}
}

// allocated is how much memory was allocated since the process began.
func allocated() uint64 {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.TotalAlloc
}

// A file that is being read ends with the context that it was opened with.
func TestLocalReadsEndWithTheirContext(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	must.Do(t, os.WriteFile(name, []byte(strings.Repeat("x", 1<<20)), 0o600))
	ctx, cancel := context.WithCancel(t.Context())
	f := must.Get(store.Open(ctx, name))(t)
	defer f.Close()
	r := store.Reader(f)
	must.Get(io.ReadFull(r, make([]byte, 100)))(t)
	cancel()
	if n, err := io.Copy(io.Discard, r); !errors.Is(err, context.Canceled) {
		t.Errorf("%d more bytes and %v", n, err)
	}
}

//go:build unix

package ledger

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"minsep/internal/must"
	"minsep/internal/store"
)

// A log that is a pipe, a folder or a long line is refused, and not waited for or read through.
func TestHostileLog(t *testing.T) {
	for _, c := range []struct {
		name string
		make func(path string) error
		want func(err error) bool
	}{
		{"a pipe", func(path string) error { return syscall.Mkfifo(path, 0o600) }, func(err error) bool { return errors.Is(err, store.ErrNotRegular) }},
		{"a folder", func(path string) error { return os.Mkdir(path, 0o700) }, func(err error) bool { return err != nil }},
		{"a part of a line", func(path string) error { return os.WriteFile(path, []byte("01234567\n"), 0o600) }, func(err error) bool { return errors.As(err, new(*CorruptError)) }},
		{"a long line", func(path string) error {
			return errors.Join(os.WriteFile(path, []byte("0123456789abcdef {"), 0o600), os.Truncate(path, 1<<29))
		}, func(err error) bool {
			var corrupt *CorruptError
			return errors.As(err, &corrupt) && corrupt.Line == 1
		}},
	} {
		dir := t.TempDir()
		create(t, dir)
		path := filepath.Join(dir, UnitsFile)
		must.Do(t, c.make(path))
		if _, err := Read(t.Context(), dir); !c.want(err) {
			t.Errorf("%s: Read: %v", c.name, err)
		}
		if _, err := Open(dir); !c.want(err) {
			t.Errorf("%s: Open: %v", c.name, err)
		}
	}
}

// A log that is not there is one without units.
func TestNoLog(t *testing.T) {
	dir := t.TempDir()
	create(t, dir)
	if r, err := Read(t.Context(), dir); err != nil || r.Tallies() != nil {
		t.Errorf("%v, %v", r, err)
	}
}

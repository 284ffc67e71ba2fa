//go:build unix

package store_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"minsep/internal/must"
	"minsep/internal/store"
)

func TestLockFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "run")
	unlock := must.Get(store.LockFolder("file://"+dir, ".lock", 0o755, 0o644))(t)
	if _, err := store.LockFolder(dir, ".lock", 0o755, 0o644); !errors.Is(err, store.ErrLocked) {
		t.Errorf("locked twice: %v", err)
	}
	unlock()
	if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the empty folder is left: %v", err)
	}
	// A file that a killed process has left locks nothing, and a folder that was there stays.
	must.Do(t, errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(filepath.Join(dir, ".lock"), nil, 0o644)))
	unlock = must.Get(store.LockFolder(dir, ".lock", 0o755, 0o644))(t)
	unlock()
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left are %v, %v", left, err)
	}
}

// TestLinksAreNotWritten: a link in the place of a lock makes no file elsewhere, and
// changes none.
func TestLinksAreNotWritten(t *testing.T) {
	top := t.TempDir()
	dir, victim, dangling := filepath.Join(top, "run"), filepath.Join(top, "victim"), filepath.Join(top, "nowhere")
	must.Do(t, errors.Join(os.Mkdir(dir, 0o755), os.WriteFile(victim, []byte("mine"), 0o600)))
	link := filepath.Join(dir, "link")
	for _, to := range []string{victim, dangling} {
		must.Do(t, os.Symlink(to, link))
		want := "file " + link + ": is a link to " + to
		must.Fail(t, "lock", want)(store.LockFolder(dir, "link", 0o755, 0o644))
		must.Do(t, os.Remove(link))
	}
	if _, err := os.Lstat(dangling); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made where the link led: %v", err)
	}
	if b, err := os.ReadFile(victim); err != nil || string(b) != "mine" {
		t.Errorf("what the link led to is %q now (%v)", b, err)
	}
}

// Temporary files that a killed process has left are removed; those that are being written, those
// of others and finished files stay.
func TestRemoveLeft(t *testing.T) {
	dir := t.TempDir()
	left, others, whole := filepath.Join(dir, store.TempPrefix+"mine-1"), filepath.Join(dir, store.TempPrefix+"yours-1"), filepath.Join(dir, "mine-whole")
	for _, name := range []string{left, others} {
		must.Do(t, os.WriteFile(name, []byte("x"), 0o600))
	}
	names := func() (names []string) {
		list := must.Get(store.List(t.Context(), dir))(t)
		for _, e := range list {
			names = append(names, e.Name)
		}
		return names
	}
	for range 2 { // a finished file is replaced too
		err := store.Write(t.Context(), whole, store.Options{Mode: 0o600}, func(w io.Writer) error {
			must.Do(t, store.RemoveLeft(t.Context(), "file://"+dir, "mine-"))
			if got := names(); !slices.ContainsFunc(got, func(name string) bool { return strings.HasPrefix(name, store.TempPrefix+"mine-") }) {
				t.Errorf("while a file is written: %v", got)
			}
			_, err := w.Write([]byte("whole"))
			return err
		})
		if b, errRead := os.ReadFile(whole); err != nil || string(b) != "whole" {
			t.Fatalf("%v, %q, %v", err, b, errRead)
		}
	}
	must.Do(t, store.RemoveLeft(t.Context(), dir, "mine-"))
	if got := names(); !slices.Equal(got, []string{filepath.Base(others), "mine-whole"}) {
		t.Errorf("left are %v", got)
	}
	if err := store.RemoveLeft(t.Context(), filepath.Join(dir, "none"), "mine-"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
}

// TestRemoveLeftWhileFilesAreWritten: however many processes remove and write at once, each file is
// written.
func TestRemoveLeftWhileFilesAreWritten(t *testing.T) {
	dir := t.TempDir()
	var group sync.WaitGroup
	for writer := range 4 {
		group.Go(func() {
			for range 50 {
				text := []byte(fmt.Sprint(writer))
				if err := store.WriteFile(t.Context(), filepath.Join(dir, fmt.Sprint("f", writer)), store.Options{Mode: 0o600}, text); err != nil {
					t.Error(err)
				}
				if err := store.RemoveLeft(t.Context(), dir, "f"); err != nil {
					t.Error(err)
				}
			}
		})
	}
	group.Wait()
	if list, err := store.List(t.Context(), dir); err != nil || len(list) != 4 {
		t.Errorf("%v, %v", list, err)
	}
}

func TestSecretFiles(t *testing.T) {
	ctx, dir := context.Background(), t.TempDir()
	name := filepath.Join(dir, "key")
	secret := store.Options{Mode: 0o600, New: true, InPlace: true}
	write := func(fail error) error {
		return store.Write(ctx, name, secret, func(w io.Writer) error {
			if left, _ := filepath.Glob(filepath.Join(dir, store.TempPrefix+"*")); len(left) > 0 {
				t.Errorf("a second copy: %v", left)
			}
			_, err := w.Write([]byte("secret"))
			return errors.Join(err, fail)
		})
	}
	if err := write(io.ErrShortWrite); !errors.Is(err, io.ErrShortWrite) {
		t.Error(err)
	}
	if err := write(nil); err != nil { // nothing was left by the one that failed
		t.Fatal(err)
	}
	if err := write(nil); !errors.Is(err, fs.ErrExist) {
		t.Errorf("written twice: %v", err)
	}
	if b, err := store.ReadSecret(ctx, name, 6); err != nil || string(b) != "secret" {
		t.Errorf("%q, %v", b, err)
	}
	if _, err := store.ReadSecret(ctx, name, 5); !errors.As(err, new(*store.TooLongError)) {
		t.Errorf("too long: %v", err)
	}
	for _, mode := range []fs.FileMode{0o640, 0o604, 0o620} {
		os.Chmod(name, mode)
		if _, err := store.ReadSecret(ctx, name, 6); !errors.As(err, new(*store.ModeError)) {
			t.Errorf("mode %#o: %v", mode, err)
		}
	}
}

func TestFoldersOfStores(t *testing.T) {
	store.RegisterMemory()
	ctx, dir := context.Background(), t.TempDir()
	below := filepath.Join(dir, "a", "b")
	if err := store.CheckFolder(ctx, below); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if _, err := store.ListMade(ctx, below); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if list, err := store.ListMade(ctx, "mem://bucket/none"); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
	if err := errors.Join(store.CheckFolder(ctx, dir), store.CheckFolder(ctx, "mem://bucket/none"),
		store.Chmod("mem://bucket/none", 0o700), store.Chmod("file://"+dir, 0o700)); err != nil {
		t.Error(err)
	}
	if info, err := os.Stat(dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
}

// What a killed writer of a file has left goes when the file is written again, and nothing of those
// who write the same file at the same time.
func TestLeftOfTheSameFile(t *testing.T) {
	for _, o := range []store.Options{{Mode: 0o600}, {Mode: 0o600, New: true}} {
		dir := t.TempDir()
		path := filepath.Join(dir, "f")
		only := func() {
			t.Helper()
			if list, err := os.ReadDir(dir); err != nil || len(list) != 1 {
				t.Errorf("New %v: left are %v, %v", o.New, list, err)
			}
		}
		must.Do(t, os.WriteFile(filepath.Join(dir, store.TempPrefix+"f"), []byte("left"), 0o600))
		must.Do(t, store.WriteFile(t.Context(), path, o, []byte("whole")))
		only()
		if o.New {
			if err := store.WriteFile(t.Context(), path, o, []byte("again")); !errors.Is(err, fs.ErrExist) {
				t.Errorf("a file that is there: %v", err)
			}
			only()
			continue
		}
		err := store.Write(t.Context(), path, o, func(w io.Writer) error { // while it is written
			if err := store.WriteFile(t.Context(), path, o, []byte("first")); err != nil {
				t.Error(err)
			}
			_, err := w.Write([]byte("second"))
			return err
		})
		if b, errRead := os.ReadFile(path); err != nil || string(b) != "second" {
			t.Errorf("%v, %q, %v", err, b, errRead)
		}
		only()
		var group sync.WaitGroup
		for range 4 {
			group.Go(func() {
				for range 50 {
					if err := store.WriteFile(t.Context(), path, o, []byte("one of many")); err != nil {
						t.Error(err)
					}
				}
			})
		}
		group.Wait()
		only()
	}
}

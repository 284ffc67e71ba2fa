// Package objectstores tests that local files and the clients of object stores keep the contract of
// package store, also when a service has faults. The services are emulators.
package objectstores

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"

	"minsep/internal/store"
)

// Bytes returns n pseudorandom bytes, different for each seed.
func Bytes(seed uint64, n int) []byte {
	b := make([]byte, n)
	rand.NewChaCha8([32]byte{byte(seed), byte(seed >> 8)}).Read(b)
	return b
}

// Conformance tests the store of root, an empty folder. large is the largest size of a file.
func Conformance(t *testing.T, root string, large int) {
	ctx := context.Background()
	in := func(name string) string { return store.Join(root, name) }
	put := func(t *testing.T, name string, data []byte) {
		t.Helper()
		if err := store.WriteFile(ctx, name, store.Options{Mode: 0o644}, data); err != nil {
			t.Fatal(err)
		}
	}
	holds := func(t *testing.T, name string, want []byte) {
		t.Helper()
		got, err := store.ReadFile(ctx, name, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, want) {
			t.Fatalf("%s: %d bytes that differ from the %d written", name, len(got), len(want))
		}
	}
	t.Run("sizes", func(t *testing.T) {
		for i, n := range []int{0, 1, 2<<20 - 1, 2 << 20, 2<<20 + 1, 7<<20 + 5, 8 << 20, 16<<20 + 3, 40<<20 + 1} {
			if n > large {
				break
			}
			want := Bytes(uint64(i), n)
			put(t, in("sized"), want)
			holds(t, in("sized"), want)
			if info, err := store.Stat(ctx, in("sized")); err != nil || info.Size != int64(n) || info.Dir {
				t.Fatalf("Stat: %+v, %v", info, err)
			}
		}
	})
	t.Run("reads", func(t *testing.T) { reads(ctx, t, in("ranges"), min(large, 21<<20+7)) })
	t.Run("failed write", func(t *testing.T) {
		fault := errors.New("full")
		for _, n := range []int{10, min(large, 17<<20)} {
			err := store.Write(ctx, in("failed"), store.Options{Mode: 0o644}, func(w io.Writer) error {
				if _, err := w.Write(make([]byte, n)); err != nil {
					return err
				}
				return fault
			})
			if !errors.Is(err, fault) {
				t.Fatalf("%d bytes: %v", n, err)
			}
			if _, err := store.Stat(ctx, in("failed")); !errors.Is(err, fs.ErrNotExist) {
				t.Fatalf("%d bytes: the file is there: %v", n, err)
			}
		}
	})
	t.Run("new", func(t *testing.T) { oneSucceeds(ctx, t, in("new"), large) })
	t.Run("missing", func(t *testing.T) {
		_, open := store.Open(ctx, in("nothing"))
		_, stat := store.Stat(ctx, in("nothing"))
		_, list := store.List(ctx, in("nothing"))
		for i, err := range []error{open, stat, list, store.Remove(ctx, in("nothing")), store.Move(ctx, in("nothing"), in("there"))} {
			if !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%d: %v", i, err)
			}
		}
		if err := store.RemoveAll(ctx, in("nothing")); err != nil {
			t.Error(err)
		}
	})
	t.Run("folders", func(t *testing.T) { folders(ctx, t, in("folder")) })
	t.Run("replaced", func(t *testing.T) { replaced(ctx, t, in("replaced"), min(large, 21<<20)) })
	t.Run("version", func(t *testing.T) {
		put(t, in("version"), []byte("one"))
		_, version, err := store.ReadVersion(ctx, in("version"), 100)
		if err != nil {
			t.Fatal(err)
		}
		replace := store.Options{Mode: 0o644, Replaces: version}
		if err := store.WriteFile(ctx, in("version"), replace, []byte("two")); err != nil {
			t.Fatal(err)
		}
		holds(t, in("version"), []byte("two"))
		if !store.Shared(root) {
			return
		}
		if err := store.WriteFile(ctx, in("version"), replace, []byte("three")); !errors.Is(err, store.ErrChanged) {
			t.Errorf("in place of another version: %v", err)
		}
		holds(t, in("version"), []byte("two"))
	})
	t.Run("cancelled", func(t *testing.T) {
		if !store.Shared(root) {
			t.Skip("local files do not wait")
		}
		gone, cancel := context.WithCancel(ctx)
		cancel()
		if _, err := store.Open(gone, in("version")); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		if err := store.WriteFile(gone, in("gone"), store.Options{}, []byte("x")); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
	})
}

// reads reads random ranges of a file, several at once.
func reads(ctx context.Context, t *testing.T, name string, size int) {
	want := Bytes(99, size)
	if err := store.WriteFile(ctx, name, store.Options{Mode: 0o644}, want); err != nil {
		t.Fatal(err)
	}
	f, err := store.Open(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var wait sync.WaitGroup
	for w := range 4 {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(w)))
			for range 20 {
				at := r.IntN(size)
				b := make([]byte, 1+r.IntN(5<<20))
				n, err := f.ReadAt(b, int64(at))
				expect := want[at:min(size, at+len(b))]
				if !bytes.Equal(b[:n], expect) || (err == io.EOF) != (len(expect) < len(b)) ||
					err != nil && err != io.EOF {
					t.Errorf("%d bytes at %d: %d, %v", len(b), at, n, err)
					return
				}
			}
		})
	}
	wait.Wait()
	if n, err := f.ReadAt(make([]byte, 1), int64(size)); n != 0 || err != io.EOF {
		t.Errorf("at the end: %d, %v", n, err)
	}
}

// oneSucceeds lets many writers create the same file.
func oneSucceeds(ctx context.Context, t *testing.T, name string, large int) {
	for _, n := range []int{100, 9 << 20} {
		if n > large {
			break
		}
		name := fmt.Sprint(name, n)
		var wait sync.WaitGroup
		errs := make([]error, 4)
		for i := range errs {
			wait.Go(func() {
				errs[i] = store.WriteFile(ctx, name, store.Options{Mode: 0o644, New: true}, Bytes(uint64(i), n))
			})
		}
		wait.Wait()
		winner := slices.Index(errs, nil)
		if winner < 0 {
			t.Fatalf("nobody: %v", errs)
		}
		for i, err := range errs {
			if i != winner && !errors.Is(err, fs.ErrExist) {
				t.Errorf("writer %d: %v", i, err)
			}
		}
		if got, err := store.ReadFile(ctx, name, 1<<30); err != nil || !bytes.Equal(got, Bytes(uint64(winner), n)) {
			t.Errorf("%d bytes: not those of the one that succeeded: %v", len(got), err)
		}
	}
}

func folders(ctx context.Context, t *testing.T, dir string) {
	for _, name := range []string{"b", "a/x", "a/y/z", "a.b", "c"} {
		name = store.Join(dir, name)
		if err := store.MkdirAll(ctx, store.Dir(name), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := store.WriteFile(ctx, name, store.Options{Mode: 0o600}, []byte(name)); err != nil {
			t.Fatal(err)
		}
	}
	list := func(dir string, want ...store.Entry) {
		t.Helper()
		got, err := store.List(ctx, dir)
		if errors.Is(err, fs.ErrNotExist) && len(want) == 0 {
			return
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: got %v, %v, want %v", dir, got, err, want)
		}
	}
	list(
		dir,
		store.Entry{Name: "a", Dir: true},
		store.Entry{Name: "a.b"},
		store.Entry{Name: "b"},
		store.Entry{Name: "c"},
	)
	list(store.Join(dir, "a"), store.Entry{Name: "x"}, store.Entry{Name: "y", Dir: true})
	if info, err := store.Stat(ctx, store.Join(dir, "a")); err != nil || !info.Dir {
		t.Errorf("Stat of a folder: %+v, %v", info, err)
	}
	moved := store.Join(dir, "moved")
	if err := store.Move(ctx, store.Join(dir, "c"), moved); err != nil {
		t.Fatal(err)
	}
	if got, err := store.ReadFile(ctx, moved, 1<<20); err != nil || string(got) != store.Join(dir, "c") {
		t.Errorf("moved: %q, %v", got, err)
	}
	for _, name := range []string{"a", "b"} {
		if err := store.RemoveAll(ctx, store.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	if err := store.Remove(ctx, moved); err != nil {
		t.Fatal(err)
	}
	list(dir, store.Entry{Name: "a.b"})
	if err := store.RemoveAll(ctx, dir); err != nil {
		t.Fatal(err)
	}
	list(dir)
}

// replaced reads a file while another one takes its place.
func replaced(ctx context.Context, t *testing.T, name string, size int) {
	before, after := Bytes(1, size), Bytes(2, size)
	if err := store.WriteFile(ctx, name, store.Options{Mode: 0o644}, before); err != nil {
		t.Fatal(err)
	}
	f, err := store.Open(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	first := make([]byte, 100)
	if _, err := f.ReadAt(first, 0); err != nil || !bytes.Equal(first, before[:100]) {
		t.Fatal("the beginning is another one:", err)
	}
	if err := store.WriteFile(ctx, name, store.Options{Mode: 0o644}, after); err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(store.Reader(f))
	if !bytes.Equal(got, before[:len(got)]) {
		t.Fatal("read a mixture")
	}
	if err == nil && len(got) != size || err != nil && !errors.Is(err, store.ErrChanged) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
}

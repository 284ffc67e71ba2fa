package store_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"minsep/internal/must"
	"minsep/internal/param"
	"minsep/internal/store"
)

func TestLocalModes(t *testing.T) {
	ctx := context.Background()
	dir := filepath.Join(t.TempDir(), "a", "b")
	must.Do(t, store.MkdirAll(ctx, dir, 0o700))
	name := "file://" + filepath.Join(dir, "secret")
	for _, o := range []store.Options{{Mode: 0o600, New: true}, {Mode: 0o600}} {
		must.Do(t, store.WriteFile(ctx, name, o, []byte("x")))
	}
	for path, want := range map[string]os.FileMode{dir: 0o700, filepath.Join(dir, "secret"): 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: %v, %v", path, info.Mode(), err)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(dir, store.TempPrefix+"*")); len(left) > 0 {
		t.Error("left", left)
	}
}

func TestNames(t *testing.T) {
	for _, c := range []struct{ got, want string }{
		{store.Join("run", "batches", "a/b"), filepath.FromSlash("run/batches/a/b")},
		{store.Join("gs://bucket", "a"), "gs://bucket/a"},
		{store.Join("gs://bucket/", "a", "b/c"), "gs://bucket/a/b/c"},
		{store.Join("gs://bucket/run/"), "gs://bucket/run"},
		{store.Join("s3://bucket/run", "..", "..", "..", "x"), "s3://bucket/x"},
		{store.Dir("gs://bucket/run/batches"), "gs://bucket/run"},
		{store.Dir("gs://bucket/run"), "gs://bucket"},
		{store.Dir("gs://bucket"), "gs://bucket"},
		{store.Dir("run"), "."},
		{store.Base("gs://bucket/run/"), "run"},
		{store.Join("file:///tmp/x", "y"), filepath.FromSlash("/tmp/x/y")},
	} {
		if c.got != c.want {
			t.Errorf("got %q, want %q", c.got, c.want)
		}
	}
	for _, name := range []string{"hdfs://host/x", "", "file://host/x"} {
		if _, ok := errors.AsType[*param.Error](store.Check(name)); !ok {
			t.Errorf("%q: %v", name, store.Check(name))
		}
	}
	if err := store.Check("a:b"); err != nil {
		t.Error(err)
	}
}

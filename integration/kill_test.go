package integration

import (
	"bytes"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"minsep/internal/killtest"
	"minsep/internal/manifest"
	"minsep/internal/must"
)

// TestKilledFormLeavesNoResult kills form when it has left so much. Whatever is left is either
// refused by readers or the whole result, and running again gives the bytes of an undisturbed run.
func TestKilledFormLeavesNoResult(t *testing.T) {
	if testing.Short() {
		t.Skip("kills some dozen processes: not with -short")
	}
	bin, dir := buildCommand(t), t.TempDir()
	key := filepath.Join(dir, "key")
	if out, err := exec.Command(bin, "keygen", key).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	form := func(out string) *exec.Cmd {
		return exec.Command(bin, "form", "--examples", "300000", "--scheme", "b-min-sep", "--steps", "1000", "--min-sep", "16", "--batch-size", "2000",
			"--shards", "8", "--key", key, "--out", out, "--quiet")
	}
	want, out := filepath.Join(dir, "want"), filepath.Join(dir, "killed") // one run id serves one directory
	if said, err := form(out).CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	must.Do(t, os.Rename(out, want))
	run := must.Get(os.ReadFile(filepath.Join(want, manifest.RunName)))(t)
	begin := func() { // a directory with the same run id and nothing else
		t.Helper()
		must.Do(t, errors.Join(os.RemoveAll(out), os.Mkdir(out, 0o755), os.WriteFile(filepath.Join(out, manifest.RunName), run, 0o644)))
	}
	begin()
	rng := rand.New(rand.NewPCG(1, 1))
	interrupted := 0
	files := filepath.Join(out, "batches", "*")
	for try, m := range []killtest.Moment{{Glob: filepath.Join(out, "lock")}, {Glob: filepath.Join(out, "batches")}, {Glob: files},
		{Glob: files, Files: 2}, {Glob: files, Files: 5}, {Glob: files, Files: 9}, {Glob: files, Files: 14}, {Glob: filepath.Join(out, "batches", "index.json")}} {
		killtest.Once(t, form(out), m, rng.IntN(20), os.Kill)
		if batches, err := manifest.OpenBatches(t.Context(), filepath.Join(out, "batches")); err == nil {
			if err := batches.Index.Verify(t.Context(), batches.Dir); err != nil {
				t.Errorf("try %d: a reader accepts a folder that is not whole: %v", try, err)
			}
		} else {
			interrupted++
			if again, err := form(out).CombinedOutput(); err != nil {
				t.Fatalf("try %d: running again: %v\n%s", try, err, again)
			}
		}
		sameFolder(t, filepath.Join(want, "batches"), filepath.Join(out, "batches"))
		begin()
	}
	if interrupted < 3 {
		t.Errorf("%d runs were interrupted before their end", interrupted)
	}
}

// sameFolder compares the files of two folders.
func sameFolder(t *testing.T, a, b string) {
	t.Helper()
	names := func(dir string) map[string][]byte {
		files := make(map[string][]byte)
		entries, err := os.ReadDir(dir)
		for _, e := range entries {
			content, readErr := os.ReadFile(filepath.Join(dir, e.Name()))
			files[e.Name()], err = content, errors.Join(err, readErr)
		}
		if err != nil {
			t.Fatal(err)
		}
		return files
	}
	left, right := names(a), names(b)
	if len(left) != len(right) {
		t.Errorf("%d and %d files", len(left), len(right))
	}
	for name, content := range left {
		if !bytes.Equal(content, right[name]) {
			t.Errorf("%s differs", name)
		}
	}
}

package manifest

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"minsep/internal/stream"
)

// TestRemovable: of a stage's folder nothing is removed that is not the stage's, in a finished one
// by its index, in an unfinished one by the names that stages give; and nothing through a link.
func TestRemovable(t *testing.T) {
	top := t.TempDir()
	finished := func(name string) string {
		t.Helper()
		dir := filepath.Join(top, name)
		s, err := Begin(dir, true)
		if err != nil {
			t.Fatal(err)
		}
		ix := Index{Format: NoiseFormat, RunID: stream.RunID{1}}
		for _, file := range []string{RecipeFile, "shard-00000-of-00001/steps-000000-000001.npy"} {
			if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, file)), 0o700); err != nil {
				t.Fatal(err)
			}
			f, err := s.Write(file, func(w io.Writer) error { _, err := io.WriteString(w, "content"); return err })
			if err != nil {
				t.Fatal(err)
			}
			ix.Files = append(ix.Files, f)
		}
		if ix.Params, ix.ParamsSHA256, err = Params(struct{}{}); err != nil {
			t.Fatal(err)
		}
		if err := s.Publish(ix); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	interrupted := func(name string) string {
		dir := finished(name)
		if err := errors.Join(os.Remove(filepath.Join(dir, IndexName)), os.WriteFile(filepath.Join(dir, "incomplete.json"), nil, 0o600)); err != nil {
			t.Fatal(err)
		}
		return dir
	}
	for i, c := range []struct {
		dir     string
		more    string // a file that is put there
		refused bool
	}{
		{finished("a"), "", false},
		{finished("b"), ".minsep-tmp-x", false},
		{finished("c"), "shard-00000-of-00001/.minsep-tmp-x", false},
		{finished("d"), "mine", true},
		{finished("e"), "shard-00000-of-00001/mine", true},
		{finished("f"), "shard-00000-of-00001/steps-000002-000003.npy", true}, // as of another index
		{finished("g"), "mine/recipe.json", true},
		{interrupted("h"), "", false},
		{interrupted("i"), "mine", true},
		{interrupted("j"), "shard-00000-of-00001/steps-000002-000003.npy", false},
		{interrupted("k"), "shard-00000-of-00001/mine.npy", true},
		{interrupted("l"), "collected-files.json", false},
		{interrupted("m"), ".minsep-tmp-shared/anything", false},
	} {
		if c.more != "" {
			path := filepath.Join(c.dir, c.more)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)); err != nil {
				t.Fatal(err)
			}
		}
		err := Removable(t.Context(), c.dir)
		if (err != nil) != c.refused {
			t.Errorf("case %d, with %q: %v", i, c.more, err)
		}
	}
	victim, link := finished("victim"), filepath.Join(top, "link")
	if err := os.Symlink(victim, link); err != nil {
		t.Skip(err)
	}
	if err := Removable(t.Context(), link); err == nil || !strings.Contains(err.Error(), "is a link to "+victim) {
		t.Errorf("a link: %v", err)
	}
	inside := finished("inside")
	file := filepath.Join(inside, "shard-00000-of-00001/steps-000000-000001.npy")
	if err := errors.Join(os.Remove(file), os.Symlink(filepath.Join(victim, RecipeFile), file), Removable(t.Context(), inside)); err != nil {
		t.Error(err)
	}
	if _, err := Read(t.Context(), victim); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(victim, RecipeFile)); err != nil {
		t.Errorf("what a link led to: %v", err)
	}
}

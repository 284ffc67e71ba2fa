package manifest

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"minsep/internal/must"
)

// TestRemovable: of an unfinished folder of a stage nothing is removed that has no name of a stage's
// file, and nothing through a link.
func TestRemovable(t *testing.T) {
	top := t.TempDir()
	const recipe, steps = RecipeFile, "shard-00000-of-00001/steps-000000-000001.npy"
	interrupted := func(name string) string {
		t.Helper()
		dir := filepath.Join(top, name)
		for _, file := range []string{recipe, steps, "incomplete.json"} {
			path := filepath.Join(dir, file)
			must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte("content"), 0o600)))
		}
		return dir
	}
	for i, c := range []struct {
		dir     string
		more    string // a file that is put there
		refused bool
	}{
		{interrupted("b"), ".minsep-tmp-x", false},
		{interrupted("c"), "shard-00000-of-00001/.minsep-tmp-x", false},
		{interrupted("g"), "mine/recipe.json", true},
		{interrupted("h"), "", false},
		{interrupted("i"), "mine", true},
		{interrupted("j"), "shard-00000-of-00001/steps-000002-000003.npy", false},
		{interrupted("k"), "shard-00000-of-00001/mine.npy", true},
		{interrupted("l"), "collected-files.json", false},
		{interrupted("m"), ".minsep-tmp-shared/anything", false},
	} {
		if c.more != "" {
			path := filepath.Join(c.dir, c.more)
			must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, nil, 0o600)))
		}
		err := removable(t.Context(), c.dir)
		if (err != nil) != c.refused {
			t.Errorf("case %d, with %q: %v", i, c.more, err)
		}
	}
	victim, link, inside := interrupted("victim"), filepath.Join(top, "link"), interrupted("inside")
	if err := os.Symlink(victim, link); err != nil {
		t.Skip(err)
	}
	must.Fail(t, "a link", "is a link to "+victim)(removable(t.Context(), link))
	file := filepath.Join(inside, steps)
	if err := errors.Join(os.Remove(file), os.Symlink(filepath.Join(victim, recipe), file), removable(t.Context(), inside)); err != nil {
		t.Error(err)
	}
	folder := filepath.Join(inside, "shard-00001-of-00002")
	must.Fail(t, "a link to a folder with foreign files", "which minsep did not write")(errors.Join(os.Symlink(top, folder), removable(t.Context(), inside)))
	if b, err := os.ReadFile(filepath.Join(victim, recipe)); err != nil || string(b) != "content" {
		t.Errorf("what a link led to: %q, %v", b, err)
	}
}

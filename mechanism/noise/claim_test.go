package noise

import (
	"errors"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"

	"minsep/mechanism"
	"minsep/sampling/stream"
)

func TestClaim(t *testing.T) {
	top := t.TempDir()
	folder := ClaimDir(filepath.Join(top, "root.key"))
	dirs := make([]string, 2)
	for i, name := range []string{"a", "b"} {
		dirs[i] = filepath.Join(top, name)
		if err := os.Mkdir(dirs[i], 0o700); err != nil {
			t.Fatal(err)
		}
	}
	link := filepath.Join(top, "link")
	if err := os.Symlink(dirs[0], link); err != nil {
		t.Fatal(err)
	}
	c := Config{Strategy: mechanism.Identity(5), Coordinates: 10, NoiseMultiplier: 1, ClipNorm: 1}
	recipe := func(multiplier float64, run byte) *Recipe {
		c.NoiseMultiplier = multiplier
		r := bind(t, c)
		r.Bind(testRoot(t), stream.RunID{run}, "root.key")
		return r
	}
	for i, call := range []struct {
		r    *Recipe
		dir  string
		what string // refused for
	}{
		{recipe(1, 1), dirs[0], ""},
		{recipe(1, 1), dirs[0], ""},
		{recipe(1, 1), link, ""},
		{recipe(1, 1), dirs[1], "directory"},
		{recipe(2, 1), dirs[0], "parameters"},
		{recipe(2, 1), dirs[1], "directory"},
		{recipe(1, 2), dirs[1], ""},
		{recipe(1, 1), dirs[0], ""},
	} {
		err := Claim(folder, call.r, call.dir)
		var ce *ClaimError
		if errors.As(err, &ce) != (call.what != "") || (ce == nil) != (err == nil) || ce != nil && ce.What != call.what {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if err := Claim(folder, recipe(1, 9), filepath.Join(top, "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such directory: %v", err)
	}
	record := filepath.Join(folder, stream.RunID{1}.String()+".json")
	for path, mode := range map[string]os.FileMode{folder: 0o700, record: 0o600} {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: mode %v (%v), want %v", path, info.Mode(), err, mode)
		}
	}
	if err := os.WriteFile(record, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if Claim(folder, recipe(1, 1), dirs[0]) == nil {
		t.Error("a damaged record is accepted")
	}
}

// TestClaimByManyAtOnce: of many directories one gets the run id.
func TestClaimByManyAtOnce(t *testing.T) {
	top := t.TempDir()
	r := bind(t, Config{Strategy: mechanism.Identity(5), Coordinates: 10, NoiseMultiplier: 1, ClipNorm: 1})
	var served atomic.Int32
	var group sync.WaitGroup
	for range 20 {
		dir, err := os.MkdirTemp(top, "run")
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			if Claim(filepath.Join(top, "records"), r, dir) == nil {
				served.Add(1)
			}
		})
	}
	group.Wait()
	if served.Load() != 1 {
		t.Errorf("%d directories are served by one run id", served.Load())
	}
}

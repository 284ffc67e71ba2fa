package noise

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"minsep/mechanism"
	"minsep/sampling/stream"
)

// newRegistry is that of testRoot, in a file of that name, with a state folder of the test's own.
func newRegistry(t *testing.T, keyFile string) *Registry {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(keyFile), 0o700); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(keyFile, os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	f.Close()
	g, err := OpenRegistry(testRoot(t), keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// claimed is the recipe of a training run.
func claimed(t *testing.T, run byte, multiplier float64, training Training) *Recipe {
	t.Helper()
	r := bind(t, Config{Strategy: mechanism.Identity(5), Coordinates: 10, NoiseMultiplier: multiplier, ClipNorm: 1, Training: training})
	r.Bind(testRoot(t), stream.RunID{run}, "root.key")
	return r
}

func makeDirs(t *testing.T, top string, names ...string) (dirs []string) {
	t.Helper()
	for _, name := range names {
		dir := filepath.Join(top, name)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		dirs = append(dirs, dir)
	}
	return dirs
}

func TestClaim(t *testing.T) {
	top, state := t.TempDir(), t.TempDir()
	t.Setenv(stateVariable, state)
	g := newRegistry(t, filepath.Join(top, "root.key"))
	dirs := makeDirs(t, top, "a", "b")
	link := filepath.Join(top, "link")
	if err := os.Symlink(dirs[0], link); err != nil {
		t.Fatal(err)
	}
	of := func(examples string) Training { return Training{Examples: examples} }
	for i, call := range []struct {
		r    *Recipe
		dir  string
		what string // refused for
	}{
		{claimed(t, 1, 1, of("numbered 3")), dirs[0], ""},
		{claimed(t, 1, 1, of("numbered 3")), dirs[0], ""},
		{claimed(t, 1, 1, of("numbered 3")), link, ""},
		{claimed(t, 1, 1, of("numbered 3")), dirs[1], "directory"},
		{claimed(t, 1, 2, of("numbered 3")), dirs[0], "training run"},
		{claimed(t, 1, 1, of("numbered 4")), dirs[0], "training run"},
		{claimed(t, 1, 1, Training{Examples: "numbered 3", Sampler: "{}"}), dirs[0], "training run"},
		{claimed(t, 1, 2, of("numbered 3")), dirs[1], "training run"},
		{claimed(t, 2, 1, of("numbered 3")), dirs[1], ""},
		{claimed(t, 1, 1, of("numbered 3")), dirs[0], ""},
	} {
		err := g.Claim(call.r, call.dir, Digest{})
		var ce *ClaimError
		if errors.As(err, &ce) != (call.what != "") || (ce == nil) != (err == nil) || ce != nil && ce.What != call.what {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if err := g.Claim(claimed(t, 9, 1, Training{}), filepath.Join(top, "nowhere"), Digest{}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no such directory: %v", err)
	}
	if _, files, err := g.Find(stream.RunID{9}); err != nil || files != nil {
		t.Errorf("a claim that failed left %v (%v)", files, err)
	}
	_, files, err := g.Find(stream.RunID{1})
	if err != nil || len(files) != 2 || !strings.HasPrefix(files[1], state) || strings.HasPrefix(files[0], state) {
		t.Fatalf("records %v (%v), want one beside the key and one in the state folder", files, err)
	}
	for _, path := range files {
		for path, mode := range map[string]os.FileMode{path: 0o600, filepath.Dir(path): 0o700} {
			if info, err := os.Stat(path); err != nil || info.Mode().Perm() != mode {
				t.Errorf("%s: mode %v (%v), want %v", path, info.Mode(), err, mode)
			}
		}
	}
	if err := os.WriteFile(files[1], []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := g.Claim(claimed(t, 1, 1, of("numbered 3")), dirs[0], Digest{}); err == nil || !strings.Contains(err.Error(), files[1]+": was changed or damaged") || !strings.Contains(err.Error(), "put a copy of it back") {
		t.Errorf("a damaged record: %v", err)
	}
	// The way out that the message names.
	whole, err := os.ReadFile(files[0])
	if err := errors.Join(err, os.WriteFile(files[1], whole, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := g.Claim(claimed(t, 1, 1, of("numbered 3")), dirs[0], Digest{}); err != nil {
		t.Errorf("a record that was put back: %v", err)
	}
}

// TestRelativeStateFolder is refused: records there would not be found from another folder.
func TestRelativeStateFolder(t *testing.T) {
	top := t.TempDir()
	key := filepath.Join(top, "root.key")
	newRegistry(t, key)
	t.Chdir(top)
	t.Setenv("HOME", top)
	for _, dir := range []string{"state", "./state", "~/state"} {
		t.Setenv(stateVariable, dir)
		_, err := OpenRegistry(stream.Root{}, key)
		if want := "noise: XDG_STATE_HOME " + dir + ": must be an absolute path"; err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if state, _ := stateFolder(); state != filepath.Join(top, ".local", "state") {
			t.Errorf("those who only look see %s", state)
		}
	}
}

// TestOneKeyHasOneRegistry: links, copies and new names of a key file find the claim, whichever of
// the two records is gone.
func TestOneKeyHasOneRegistry(t *testing.T) {
	top, state := t.TempDir(), t.TempDir()
	t.Setenv(stateVariable, state)
	key := filepath.Join(top, "keys", "root.key")
	g := newRegistry(t, key)
	dirs := makeDirs(t, top, "a", "b", "elsewhere")
	if err := g.Claim(claimed(t, 1, 1, Training{}), dirs[0], Digest{}); err != nil {
		t.Fatal(err)
	}
	symbolic, hard := filepath.Join(top, "symbolic"), filepath.Join(dirs[2], "hard")
	if err := errors.Join(os.Symlink(key, symbolic), os.Link(key, hard)); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dirs[2], "copy") // newRegistry makes the file
	refused := func(keyFile string) bool {
		var ce *ClaimError
		err := newRegistry(t, keyFile).Claim(claimed(t, 1, 1, Training{}), dirs[1], Digest{})
		return errors.As(err, &ce) && ce.What == "directory" && slices.ContainsFunc(ce.Records, func(path string) bool {
			return strings.Contains(err.Error(), path)
		})
	}
	for _, keyFile := range []string{symbolic, hard, copied} {
		if !refused(keyFile) {
			t.Errorf("%s: another directory has the run id", keyFile)
		}
	}
	t.Setenv(stateVariable, t.TempDir()) // of another user
	for _, keyFile := range []string{key, symbolic} {
		if !refused(keyFile) {
			t.Errorf("%s, with another state folder: another directory has the run id", keyFile)
		}
	}
	if err := newRegistry(t, copied).Claim(claimed(t, 1, 1, Training{}), dirs[1], Digest{}); err != nil {
		t.Errorf("a key of which no record is to be seen: %v", err)
	}
	t.Setenv(stateVariable, state)
	if err := os.RemoveAll(filepath.Join(top, "keys", "minsep-runs")); err != nil {
		t.Fatal(err)
	}
	if !refused(key) {
		t.Error("without the records beside the key another directory has the run id")
	}
}

// TestRegistryNeedsItsFolders: a folder that cannot be made is a fault of the key's place or of the
// state folder, before any claim.
func TestRegistryNeedsItsFolders(t *testing.T) {
	top := t.TempDir()
	file := filepath.Join(top, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv(stateVariable, filepath.Join(file, "state"))
	g := newRegistry(t, filepath.Join(top, "root.key"))
	for _, dry := range []bool{true, false} {
		if err := g.Writable(dry); err == nil || !strings.Contains(err.Error(), stateVariable) {
			t.Errorf("dry %v, a state folder in a file: %v", dry, err)
		}
	}
	t.Setenv(stateVariable, filepath.Join(top, "state"))
	if err := os.Remove(filepath.Join(top, "minsep-runs", filepath.Base(g.folders[0].path))); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(top, "minsep-runs")); err != nil {
		t.Fatal(err)
	}
	g = newRegistry(t, filepath.Join(top, "root.key"))
	if err := g.Writable(true); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(filepath.Join(top, "minsep-runs")); err == nil {
		t.Error("a dry look made the folder")
	}
	if err := g.Writable(false); err != nil {
		t.Error(err)
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(top, "minsep-runs")), os.WriteFile(filepath.Join(top, "minsep-runs"), nil, 0o600)); err != nil {
		t.Fatal(err)
	}
	for _, dry := range []bool{true, false} {
		if err := g.Writable(dry); err == nil || !strings.Contains(err.Error(), "key "+filepath.Join(top, "root.key")) {
			t.Errorf("dry %v, a file where the records beside the key belong: %v", dry, err)
		}
	}
	t.Setenv(stateVariable, "")
	t.Setenv("HOME", "")
	if _, err := OpenRegistry(testRoot(t), filepath.Join(top, "root.key")); err == nil || !strings.Contains(err.Error(), stateVariable) {
		t.Errorf("no home: %v", err)
	}
}

// TestClaimByManyAtOnce: of many directories one gets the run id.
func TestClaimByManyAtOnce(t *testing.T) {
	top := t.TempDir()
	t.Setenv(stateVariable, t.TempDir())
	g := newRegistry(t, filepath.Join(top, "root.key"))
	r := claimed(t, 1, 1, Training{})
	var served atomic.Int32
	var group sync.WaitGroup
	for range 20 {
		dir, err := os.MkdirTemp(top, "run")
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			if g.Claim(r, dir, Digest{}) == nil {
				served.Add(1)
			}
		})
	}
	group.Wait()
	if served.Load() != 1 {
		t.Errorf("%d directories are served by one run id", served.Load())
	}
}

// TestMove: both records name the new directory, and a record that changed meanwhile is not
// overwritten.
func TestMove(t *testing.T) {
	top := t.TempDir()
	t.Setenv(stateVariable, t.TempDir())
	g := newRegistry(t, filepath.Join(top, "root.key"))
	dirs := makeDirs(t, top, "a", "b", "c")
	r, plan := claimed(t, 1, 1, Training{Examples: "numbered 3"}), Digest{7}
	if err := g.Claim(r, dirs[0], plan); err != nil {
		t.Fatal(err)
	}
	was, _, err := g.Find(r.RunID)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Move(*was, dirs[1]); err != nil {
		t.Fatal(err)
	}
	now, files, err := g.Find(r.RunID)
	if err != nil || len(files) != 2 || now.Directory != dirs[1] || now.PlanSHA256 != plan || now.ParamsSHA256 != was.ParamsSHA256 || now.Training != was.Training {
		t.Fatalf("moved: %+v in %v (%v)", now, files, err)
	}
	for _, path := range files {
		if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: mode %v (%v)", path, info.Mode(), err)
		}
	}
	var ce *ClaimError
	if err := g.Move(*was, dirs[2]); !errors.As(err, &ce) {
		t.Errorf("a record that another process has changed: %v", err)
	}
	if err := g.Claim(r, dirs[1], plan); err != nil {
		t.Error(err)
	}
	if err := g.Claim(r, dirs[0], plan); !errors.As(err, &ce) || ce.What != "directory" {
		t.Errorf("the place that it left: %v", err)
	}
	entries, err := os.ReadDir(filepath.Dir(files[1]))
	if err != nil || len(entries) != 1 {
		t.Errorf("left beside the record: %v (%v)", entries, err)
	}

	// One of the two records is moved: the message names both.
	one, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(files[0], []byte(strings.ReplaceAll(string(one), dirs[1], dirs[2])), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := g.Find(r.RunID); !errors.As(err, &ce) || ce.What != "directory" || len(ce.Records) != 2 {
		t.Errorf("records of two directories: %v", err)
	}
}

// TestOfThisUser: the records of the state folder, of every key, without the key.
func TestOfThisUser(t *testing.T) {
	top := t.TempDir()
	t.Setenv(stateVariable, t.TempDir())
	id := stream.RunID{1}
	if got := OfThisUser(id); got != nil {
		t.Errorf("no folder: %v", got)
	}
	g := newRegistry(t, filepath.Join(top, "root.key"))
	dirs := makeDirs(t, top, "a")
	if err := g.Claim(claimed(t, 1, 1, Training{}), dirs[0], Digest{}); err != nil {
		t.Fatal(err)
	}
	state, _ := stateFolder()
	bad := filepath.Join(state, "minsep", "runs", "other", id.String()+".json")
	if err := errors.Join(os.Mkdir(filepath.Dir(bad), 0o700), os.WriteFile(bad, []byte("{"), 0o600)); err != nil {
		t.Fatal(err)
	}
	if got := OfThisUser(id); len(got) != 1 || got[0].Directory != dirs[0] {
		t.Errorf("got %+v", got)
	}
	if got := OfThisUser(stream.RunID{2}); got != nil {
		t.Errorf("of another run id: %+v", got)
	}
}

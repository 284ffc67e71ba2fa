package registry

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"minsep/internal/digest"
	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/store"
	"minsep/internal/stream"
)

// root is the root key of the tests.
var root = stream.NewRoot()

// newRegistry is the registry of the root key, as if it were in a file of that name.
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
	g, err := Open(root, keyFile)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// claimed is the record of a training run in a directory, with noise of some parameters.
func claimed(run, params byte, training noise.Training, dir string) Record {
	return Record{RunID: stream.RunID{run}, ParamsSHA256: digest.SHA256{params}, Training: training, Directory: dir}
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
	of := func(examples string) noise.Training { return noise.Training{Examples: examples} }
	for i, call := range []struct {
		want Record
		what string // refused for
	}{
		{claimed(1, 1, of("numbered 3"), dirs[0]), ""},
		{claimed(1, 1, of("numbered 3"), dirs[0]), ""},
		{claimed(1, 1, of("numbered 3"), link), ""},
		{claimed(1, 1, of("numbered 3"), dirs[1]), "directory"},
		{claimed(1, 2, of("numbered 3"), dirs[0]), "training run"},
		{claimed(1, 1, of("numbered 4"), dirs[0]), "training run"},
		{claimed(1, 1, noise.Training{Examples: "numbered 3", Sampler: "{}"}, dirs[0]), "training run"},
		{claimed(1, 2, of("numbered 3"), dirs[1]), "training run"},
		{claimed(2, 1, of("numbered 3"), dirs[1]), ""},
		{claimed(1, 1, of("numbered 3"), dirs[0]), ""},
	} {
		err := g.Claim(call.want)
		var ce *ClaimError
		if errors.As(err, &ce) != (call.what != "") || (ce == nil) != (err == nil) || ce != nil && ce.What != call.what {
			t.Errorf("call %d: %v", i, err)
		}
	}
	if err := g.Claim(claimed(9, 1, noise.Training{}, filepath.Join(top, "nowhere"))); !errors.Is(err, os.ErrNotExist) {
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
	if err := g.Claim(claimed(1, 1, of("numbered 3"), dirs[0])); err == nil || !strings.Contains(err.Error(), files[1]+": was changed or damaged") || !strings.Contains(err.Error(), "put a copy of it back") {
		t.Errorf("a damaged record: %v", err)
	}
	// The way out that the message names.
	whole, err := os.ReadFile(files[0])
	if err := errors.Join(err, os.WriteFile(files[1], whole, 0o600)); err != nil {
		t.Fatal(err)
	}
	if err := g.Claim(claimed(1, 1, of("numbered 3"), dirs[0])); err != nil {
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
		_, err := Open(stream.Root{}, key)
		if want := "registry: XDG_STATE_HOME " + dir + ": must be an absolute path"; err == nil || !strings.HasPrefix(err.Error(), want) {
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
	if err := g.Claim(claimed(1, 1, noise.Training{}, dirs[0])); err != nil {
		t.Fatal(err)
	}
	symbolic, hard := filepath.Join(top, "symbolic"), filepath.Join(dirs[2], "hard")
	if err := errors.Join(os.Symlink(key, symbolic), os.Link(key, hard)); err != nil {
		t.Fatal(err)
	}
	copied := filepath.Join(dirs[2], "copy") // newRegistry makes the file
	refused := func(keyFile string) bool {
		var ce *ClaimError
		err := newRegistry(t, keyFile).Claim(claimed(1, 1, noise.Training{}, dirs[1]))
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
	if err := newRegistry(t, copied).Claim(claimed(1, 1, noise.Training{}, dirs[1])); err != nil {
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
	if _, err := Open(root, filepath.Join(top, "root.key")); err == nil || !strings.Contains(err.Error(), stateVariable) {
		t.Errorf("no home: %v", err)
	}
}

// TestClaimByManyAtOnce: of many directories one gets the run id.
func TestClaimByManyAtOnce(t *testing.T) {
	top := t.TempDir()
	t.Setenv(stateVariable, t.TempDir())
	g := newRegistry(t, filepath.Join(top, "root.key"))
	var served atomic.Int32
	var group sync.WaitGroup
	for range 20 {
		dir, err := os.MkdirTemp(top, "run")
		if err != nil {
			t.Fatal(err)
		}
		group.Go(func() {
			if g.Claim(claimed(1, 1, noise.Training{}, dir)) == nil {
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
	want := claimed(1, 1, noise.Training{Examples: "numbered 3"}, dirs[0])
	want.PlanSHA256 = digest.SHA256{7}
	if err := g.Claim(want); err != nil {
		t.Fatal(err)
	}
	was, _, err := g.Find(want.RunID)
	if err != nil {
		t.Fatal(err)
	}
	if err := g.Move(*was, dirs[1]); err != nil {
		t.Fatal(err)
	}
	now, files, err := g.Find(want.RunID)
	if err != nil || len(files) != 2 || now.Directory != dirs[1] || now.PlanSHA256 != want.PlanSHA256 || now.ParamsSHA256 != was.ParamsSHA256 || now.Training != was.Training {
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
	moved := want
	moved.Directory = dirs[1]
	if err := g.Claim(moved); err != nil {
		t.Error(err)
	}
	if err := g.Claim(want); !errors.As(err, &ce) || ce.What != "directory" {
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
	if _, _, err := g.Find(want.RunID); !errors.As(err, &ce) || ce.What != "directory" || len(ce.Records) != 2 {
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
	if err := g.Claim(claimed(1, 1, noise.Training{}, dirs[0])); err != nil {
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

// TestStreamed: ranges that share a coordinate count, and files with other names do not.
func TestStreamed(t *testing.T) {
	t.Setenv(stateVariable, t.TempDir())
	g, id := newRegistry(t, filepath.Join(t.TempDir(), "root.key")), stream.RunID{1}
	state, _ := stateFolder()
	streamed := func(first, end int64, dry bool) bool {
		t.Helper()
		before, err := g.Streamed(id, first, end, dry)
		if err != nil {
			t.Fatal(err)
		}
		return before
	}
	if streamed(0, 10, true) || streamed(0, 10, false) {
		t.Error("nothing was streamed yet")
	}
	for _, name := range []string{"10-30.tmp", "10-30-40", "010-30", "+10-30"} {
		if err := os.WriteFile(filepath.Join(state, "minsep", "streams", id.String(), name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if streamed(10, 20, true) || streamed(10, 20, false) {
		t.Error("files with other names count")
	}
	if !streamed(9, 11, true) || !streamed(19, 40, false) || !streamed(0, 10, false) {
		t.Error("a range that was streamed does not count")
	}
}

// TestBatchesBeforeNoise: a record that form makes keeps the run id to its directory, and to no
// training before there is noise.
func TestBatchesBeforeNoise(t *testing.T) {
	top := t.TempDir()
	t.Setenv(stateVariable, t.TempDir())
	g := newRegistry(t, filepath.Join(top, "root.key"))
	dirs := makeDirs(t, top, "a", "b")
	of := func(examples string) noise.Training { return noise.Training{Examples: examples} }
	var ce *ClaimError
	claim := func(params byte, examples, dir string) error { return g.Claim(claimed(1, params, of(examples), dir)) }
	if err := claim(0, "numbered 3", dirs[0]); err != nil {
		t.Fatal(err)
	}
	if r, _, err := g.Find(stream.RunID{1}); err != nil || r.HasNoise() {
		t.Errorf("%+v (%v)", r, err)
	}
	for _, c := range []struct {
		params   byte
		examples string
		dir      string
		refused  string
		have     string // examples of the record afterwards
		noise    bool
	}{
		{0, "numbered 3", dirs[1], "directory", "numbered 3", false},
		{1, "numbered 3", dirs[1], "directory", "numbered 3", false},
		{0, "numbered 4", dirs[0], "", "numbered 4", false},
		{1, "numbered 5", dirs[0], "", "numbered 5", true},
		{0, "numbered 5", dirs[0], "", "numbered 5", true},
		{0, "numbered 6", dirs[0], "training run", "numbered 5", true},
		{2, "numbered 5", dirs[0], "training run", "numbered 5", true},
		{1, "numbered 5", dirs[0], "", "numbered 5", true},
	} {
		err := claim(c.params, c.examples, c.dir)
		if errors.As(err, &ce) != (c.refused != "") || err != nil && ce.What != c.refused {
			t.Errorf("%+v: %v", c, err)
		}
		r, files, err := g.Find(stream.RunID{1})
		if err != nil || r.Training.Examples != c.have || r.HasNoise() != c.noise || r.Directory != dirs[0] {
			t.Errorf("%+v: the record is %+v (%v)", c, r, err)
		}
		for _, file := range files {
			if one, err := readRecord(file, r.RunID); err != nil || *one != *r {
				t.Errorf("%+v: %s has %+v (%v)", c, file, one, err)
			}
		}
	}
}

// TestStoppedClaim: where a command was stopped between the two files of a record, the one that
// says more counts, and the next claim mends the other.
func TestStoppedClaim(t *testing.T) {
	top := t.TempDir()
	t.Setenv(stateVariable, t.TempDir())
	g := newRegistry(t, filepath.Join(top, "root.key"))
	dirs := makeDirs(t, top, "a")
	begun, whole := claimed(1, 0, noise.Training{Examples: "numbered 3"}, dirs[0]), claimed(1, 1, noise.Training{Examples: "numbered 4"}, dirs[0])
	if err := g.Claim(begun); err != nil {
		t.Fatal(err)
	}
	_, files, err := g.Find(begun.RunID)
	if err != nil {
		t.Fatal(err)
	}
	before := make([][]byte, len(files))
	for i, file := range files {
		if before[i], err = os.ReadFile(file); err != nil {
			t.Fatal(err)
		}
	}
	for i, file := range files {
		if err := g.Claim(whole); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, before[i], 0o600); err != nil {
			t.Fatal(err)
		}
		if r, _, err := g.Find(begun.RunID); err != nil || r.ParamsSHA256 != whole.ParamsSHA256 || r.Training != whole.Training {
			t.Errorf("%s is of before: %+v (%v)", file, r, err)
		}
		var ce *ClaimError
		if err := g.Claim(claimed(1, 2, whole.Training, dirs[0])); !errors.As(err, &ce) {
			t.Errorf("%s is of before: another training run: %v", file, err)
		}
	}
	if err := g.Claim(whole); err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if r, err := readRecord(file, begun.RunID); err != nil || !r.HasNoise() {
			t.Errorf("%s was not mended: %+v (%v)", file, r, err)
		}
	}

	lock := filepath.Join(filepath.Dir(files[len(files)-1]), lockName(begun.RunID)) // of a command that was killed when it had mended the record
	if err := os.WriteFile(lock, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := g.Claim(whole); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(lock); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the lock stays: %v", err)
	}
}

// TestLaterRun: a directory remembers its last run, and the runs before it are told when they are
// there again.
func TestLaterRun(t *testing.T) {
	top := t.TempDir()
	t.Setenv(stateVariable, t.TempDir())
	g := newRegistry(t, filepath.Join(top, "root.key"))
	dirs := makeDirs(t, top, "a", "b")
	isRun := func(dir string, id byte, earlier ...stream.RunID) {
		t.Helper()
		if err := os.RemoveAll(filepath.Join(dir, manifest.RunName)); err != nil {
			t.Fatal(err)
		}
		if err := manifest.WriteRun(dir, manifest.Run{Format: manifest.RunFormat, Version: manifest.Version, RunID: stream.RunID{id}, Earlier: earlier}, nil); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what, dir string, id byte) {
		t.Helper()
		if got := LaterRun(t.Context(), dir); got != (stream.RunID{id}) {
			t.Errorf("%s: %v", what, got)
		}
	}
	claim := func(id byte, dir string) {
		t.Helper()
		if err := g.Claim(claimed(id, 1, noise.Training{}, dir)); err != nil {
			t.Fatal(err)
		}
	}
	want("no run", dirs[0], 0)
	isRun(dirs[0], 1)
	want("no record", dirs[0], 0)
	claim(1, dirs[0])
	want("the first", dirs[0], 0)
	isRun(dirs[0], 2, stream.RunID{1})
	want("the next, before its batches", dirs[0], 0)
	claim(2, dirs[0])
	want("the next", dirs[0], 0)
	isRun(dirs[0], 1)
	want("the first again", dirs[0], 2)
	claim(1, dirs[0])
	want("the first again, claimed", dirs[0], 2)
	isRun(dirs[1], 3)
	claim(3, dirs[1])
	if err := os.RemoveAll(dirs[0]); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(dirs[1], dirs[0]); err != nil {
		t.Fatal(err)
	}
	want("another one that was moved there", dirs[0], 0)
	r, _, err := g.Find(stream.RunID{3})
	if err := errors.Join(err, g.Move(*r, dirs[0])); err != nil {
		t.Fatal(err)
	}
	want("another one that was moved there, recorded", dirs[0], 0)
}

// TestDamagedRecords: a record that somebody emptied, cut or made another is named, and counts as
// one of a training in all its steps.
func TestDamagedRecords(t *testing.T) {
	ctx := t.Context()
	state, dir := t.TempDir(), t.TempDir()
	t.Setenv(stateVariable, state)
	id := stream.NewRunID()
	const whole = `{"format": "minsep-training/1", "run_id": %q, "token": "00000000000000000000000000000000", "taken": "%016d"}`
	other := fmt.Sprintf(whole, stream.NewRunID(), 7)
	for _, path := range []string{store.Join(dir, manifest.TrainingRecord), filepath.Join(state, "minsep", "trainings", id.String()+".json")} {
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		for text, want := range map[string]int{
			"": AllSteps, "{}": AllSteps, "[]": AllSteps, "null": AllSteps, other[:50]: AllSteps, `{"format": "minsep-training/1", "taken": "1"}`: AllSteps,
			fmt.Sprintf(whole, id, 3)[:60]: AllSteps, fmt.Sprintf(whole, id, -3): AllSteps,
			fmt.Sprintf(whole, id, 3): 3, fmt.Sprintf(whole, stream.RunID{}, 0): 0, other: 0,
		} {
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := TrainingSteps(ctx, dir, id); got != want {
				t.Errorf("%s: %q: %d steps, want %d", path, text, got, want)
			}
			if _, _, err := readTraining(ctx, path); (err != nil) != (want == AllSteps) {
				t.Errorf("%s: %q: %v", path, text, err)
			}
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
	}
	if damaged := Damaged(ctx, dir); damaged != nil {
		t.Errorf("without records: %q", damaged)
	}
}

package manifest

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"minsep/internal/must"
	"minsep/internal/store"
	"minsep/internal/stream"
	"minsep/internal/testrun"
)

func text(s string) func(io.Writer) error {
	return func(w io.Writer) error { _, err := io.WriteString(w, s); return err }
}

// publish writes a small finished folder.
func publish(t *testing.T, dir string) *Index {
	t.Helper()
	s := must.Get(Begin(dir, true))(t)
	ix := Index{Format: "test/1", RunID: stream.RunID{1}}
	var err error
	ix.Params, ix.ParamsSHA256, err = Params(map[string]int{"steps": 3})
	must.Do(t, err)
	for _, name := range []string{"strategy.json", "rows-00000-of-00001.npy"} {
		f := must.Get(s.Write(name, text("hello "+name)))(t)
		ix.Files = append(ix.Files, f)
	}
	must.Do(t, s.Publish(ix))
	got := must.Get(Open(t.Context(), dir, "test/1"))(t)
	return got
}

func TestPublishedFolderReadsBack(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "batches")
	ix := publish(t, dir)
	if len(ix.Files) != 2 || ix.Files[0].Name != "rows-00000-of-00001.npy" || string(ix.Params) != `{"steps":3}` || ix.Version != Version {
		t.Errorf("read back %+v", ix)
	}
	if err := ix.Verify(t.Context(), dir); err != nil {
		t.Error(err)
	}
	for name, mode := range map[string]os.FileMode{dir: SecretDir, filepath.Join(dir, "rows-00000-of-00001.npy"): SecretFile, filepath.Join(dir, IndexName): SecretFile} {
		if info, _ := os.Stat(name); info.Mode().Perm() != mode {
			t.Errorf("%s has mode %v, want %v", name, info.Mode().Perm(), mode)
		}
	}
}

func TestReaderRefusesWhatIsNotWhole(t *testing.T) {
	damage := map[string]func(dir string){
		"its size": func(dir string) { os.WriteFile(filepath.Join(dir, "rows-00000-of-00001.npy"), []byte("hello"), 0o600) },
		"its SHA-256": func(dir string) {
			os.WriteFile(filepath.Join(dir, "rows-00000-of-00001.npy"), []byte("hello Rows-00000-of-00001.npy"), 0o600)
		},
		"no such file":        func(dir string) { os.Remove(filepath.Join(dir, "strategy.json")) },
		"index.json: no such": func(dir string) { os.Remove(filepath.Join(dir, IndexName)) },
		"stage that writes this folder was stopped": func(dir string) { os.WriteFile(filepath.Join(dir, incompleteName), nil, 0o600) },
		"params: its SHA": func(dir string) {
			edit(dir, `"steps": 3`, `"steps": 4`)
		},
		"unknown field":     func(dir string) { edit(dir, `"format"`, `"extra": 1, "format"`) },
		"something follows": func(dir string) { edit(dir, "]\n}", "]\n} {}") },
		"leads out":         func(dir string) { edit(dir, `"rows-00000-of-00001.npy"`, `"../rows-00000-of-00001.npy"`) },
		"listed twice":      func(dir string) { edit(dir, `"strategy.json"`, `"rows-00000-of-00001.npy"`) },
		"this version re":   func(dir string) { edit(dir, `"test/1"`, `"test/2"`) },
	}
	for want, harm := range damage {
		dir := filepath.Join(t.TempDir(), "batches")
		publish(t, dir)
		harm(dir)
		ix, err := Open(t.Context(), dir, "test/1")
		if err == nil {
			err = ix.Verify(t.Context(), dir)
		}
		must.Fail(t, "", want)(err)
	}
}

func edit(dir, old, new string) {
	path := filepath.Join(dir, IndexName)
	b, _ := os.ReadFile(path)
	os.WriteFile(path, bytes.Replace(b, []byte(old), []byte(new), 1), 0o600)
}

func TestBeginProtectsWhatIsThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "batches")
	publish(t, dir)
	if _, err := Begin(dir, true); !errors.Is(err, ErrExists) {
		t.Errorf("got %v, want ErrExists", err)
	}
	foreign := t.TempDir()
	os.WriteFile(filepath.Join(foreign, "mine.txt"), nil, 0o600)
	must.Fail(t, "taking over a foreign folder", "left alone")(Begin(foreign, true))
}

func TestKilledStageIsTakenOver(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "batches")
	s := must.Get(Begin(dir, true))(t)
	must.Get(s.Write("rows-00000-of-00002.npy", text("x")))(t)
	os.WriteFile(filepath.Join(dir, store.TempPrefix+"abc"), nil, 0o600)
	ix := publish(t, dir) // as the next run does
	entries, _ := os.ReadDir(dir)
	if len(entries) != len(ix.Files)+1 {
		t.Errorf("%d entries remain: %v", len(entries), entries)
	}
}

// TestResumeKeepsWhatIsTheSame: files of a killed run stay only for a run of the same digest.
func TestResumeKeepsWhatIsTheSame(t *testing.T) {
	for name, c := range map[string]struct {
		before, after *Digest // nil: Begin
		keep          bool
	}{
		"same":          {&Digest{1}, &Digest{1}, true},
		"other":         {&Digest{1}, &Digest{2}, false},
		"not resumable": {nil, &Digest{1}, false},
		"begun anew":    {&Digest{1}, nil, false},
	} {
		dir := filepath.Join(t.TempDir(), "noise")
		s := must.Get(begin(dir, true, c.before))(t)
		for _, file := range []string{"recipe.json", store.TempPrefix + "notes.json", IndexName} {
			must.Get(s.Write(file, text("x")))(t)
		}
		must.Get(begin(dir, true, c.after))(t)
		want := []string{incompleteName}
		if c.keep {
			want = []string{store.TempPrefix + "notes.json", incompleteName, "recipe.json"}
		}
		if diff := cmp.Diff(want, names(t, dir)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
		if _, err := Read(t.Context(), dir); err == nil {
			t.Errorf("%s: a reader accepts the folder", name)
		}
		if got, err := s.marked(&Digest{2}); err != nil || got != (name == "other") {
			t.Errorf("%s: marked %v, %v", name, got, err)
		}
	}
}

// TestResumeProtectsWhatIsThere: a finished result is no leftover, even of the same digest.
func TestResumeProtectsWhatIsThere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "noise")
	publish(t, dir)
	if _, err := Resume(dir, true, Digest{1}); !errors.Is(err, ErrExists) {
		t.Errorf("got %v, want ErrExists", err)
	}
}

// TestKilledBeforeTheMark: a run that is killed while it makes the mark, or while it removes an
// earlier result, does not stop the next one.
func TestKilledBeforeTheMark(t *testing.T) {
	dir := t.TempDir()
	os.WriteFile(filepath.Join(dir, store.TempPrefix+"abc"), nil, 0o600)
	publish(t, dir)

	s := &Stage{Dir: dir, Secret: true}
	if err := s.clear([]string{IndexName}); err != nil { // and killed here
		t.Fatal(err)
	}
	ix := publish(t, dir)
	if got := names(t, dir); len(got) != len(ix.Files)+1 {
		t.Errorf("%v remain", got)
	}
}

func names(t *testing.T, dir string) (list []string) {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

func TestAbortLeavesNothing(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "batches")
	s := must.Get(Begin(dir, true))(t)
	must.Get(s.Write("x", text("x")))(t)
	must.Do(t, s.Abort())
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the folder is still there: %v", err)
	}
}

func TestFailedWriteLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	fault := errors.New("disk full")
	_, err := WriteFile(dir, "x", SecretFile, func(w io.Writer) error { w.Write(make([]byte, 1<<20)); return fault })
	if !errors.Is(err, fault) {
		t.Errorf("got %v", err)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 0 {
		t.Errorf("left %v", entries)
	}
}

// TestSecretsAreIgnored: a run directory begins with a file that keeps its secrets out of git. The
// user's own file stays, whatever happens to the run.
func TestSecretsAreIgnored(t *testing.T) {
	for _, own := range []string{"", "*.txt\n"} {
		dir := t.TempDir()
		path, want := filepath.Join(dir, IgnoreName), own
		if own == "" {
			want = "# Secrets of this run, which must not be committed.\n/batches/\n/noise/\n/.minsep-tmp-*\n/lock\n"
		} else if err := os.WriteFile(path, []byte(own), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, _, err := OpenRun(dir); err != nil {
			t.Fatal(err)
		}
		if b, err := os.ReadFile(path); err != nil || string(b) != want {
			t.Errorf("%q (%v), not %q", b, err, want)
		}
		must.Do(t, RemoveRun(dir))
		if b, _ := os.ReadFile(path); string(b) != own {
			t.Errorf("after the run was removed: %q, not %q", b, own)
		}
	}
}

func TestRunDirectory(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	run, made, err := OpenRun(dir)
	if err != nil || !made {
		t.Fatal(made, err)
	}
	again, made, err := OpenRun(dir)
	if err != nil || made || !cmp.Equal(again, run) {
		t.Errorf("opened again: %+v, %v, %v", again, made, err)
	}
	must.Do(t, RemoveRun(dir))
	if _, err := os.Stat(dir); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the directory is still there: %v", err)
	}
}

// TestForeignFolderKeepsItsMode: a folder that is refused, as that of another program that a link
// of this name leads to, is as it was.
func TestForeignFolderKeepsItsMode(t *testing.T) {
	dir := t.TempDir()
	foreign, link := filepath.Join(dir, "foreign"), filepath.Join(dir, "link")
	must.Do(t, errors.Join(os.Mkdir(foreign, 0o755), os.Chmod(foreign, 0o755), os.WriteFile(filepath.Join(foreign, "file"), nil, 0o644), os.Symlink("foreign", link)))
	must.Fail(t, "a link to a foreign folder", "are left alone")(Begin(link, true))
	if info, err := os.Stat(foreign); err != nil || info.Mode().Perm() != 0o755 {
		t.Errorf("its mode is %v (%v)", info.Mode(), err)
	}
	if entries, err := os.ReadDir(foreign); err != nil || len(entries) != 1 {
		t.Errorf("it holds %v (%v)", entries, err)
	}
}

// TestRunLinkAstray: a run.json that is a link to no file is refused, and not followed.
func TestRunLinkAstray(t *testing.T) {
	astray := t.TempDir()
	must.Do(t, os.Symlink(filepath.Join(astray, "nowhere"), filepath.Join(astray, RunName)))
	if _, _, err := OpenRun(astray); !errors.Is(err, ErrInvalid) || !strings.Contains(err.Error(), "is a link that leads nowhere") {
		t.Errorf("a link that leads nowhere: %v", err)
	}
	if _, err := os.Stat(filepath.Join(astray, "nowhere")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("what the link names is there: %v", err)
	}
}

func TestNPYRoundTrip(t *testing.T) {
	for _, h := range []NPYHeader{{DInt32, []int{0}, 0}, {DInt64, []int{3}, 0}, {DFloat32, []int{1000, 64}, 0}, {DFloat64, []int{2, 0}, 0}} {
		var b bytes.Buffer
		must.Do(t, h.Write(&b))
		if h.bytes = int64(b.Len()); h.bytes%64 != 0 {
			t.Errorf("%v: header of %d bytes is not aligned", h, b.Len())
		}
		got, err := ReadNPYHeader(&b)
		if err != nil || !reflect.DeepEqual(got, h) {
			t.Errorf("got %v, %v, want %v", got, err, h)
		}
	}
}

func npyInts(dtype DType, n int, body []byte) []byte {
	var b bytes.Buffer
	NPYHeader{DType: dtype, Shape: []int{n}}.Write(&b)
	b.Write(body)
	return b.Bytes()
}

func readInts(file []byte) ([]int64, error) {
	x, err := NewNPYInts(bytes.NewReader(file), int64(len(file)))
	if err != nil {
		return nil, err
	}
	out := make([]int64, x.Len())
	return out, x.Read(out)
}

func TestNPYInts(t *testing.T) {
	body := binary.LittleEndian.AppendUint32(nil, 7)
	body = binary.LittleEndian.AppendUint32(body, uint32(0xffffffff))
	file := npyInts(DInt32, 2, body)
	if got, err := readInts(file); err != nil || !cmp.Equal(got, []int64{7, -1}) {
		t.Errorf("got %v, %v", got, err)
	}
	for name, bad := range map[string][]byte{
		"short":     npyInts(DInt32, 3, body),
		"long":      npyInts(DInt32, 1, body),
		"float":     npyInts(DFloat32, 2, body),
		"empty":     {},
		"no magic":  bytes.Repeat([]byte{7}, 128),
		"huge":      npyInts(DInt32, 1<<47, nil),
		"truncated": file[:70],
	} {
		if _, err := readInts(bad); err == nil {
			t.Errorf("%s file was read", name)
		}
	}
}

func FuzzNPYInts(f *testing.F) {
	f.Add(npyInts(DInt32, 2, make([]byte, 8)))
	f.Add(npyInts(DInt64, 1, make([]byte, 8)))
	f.Fuzz(func(t *testing.T, b []byte) {
		values, err := readInts(b)
		if err == nil && len(values) > len(b)/4 {
			t.Errorf("%d values out of %d bytes", len(values), len(b))
		}
	})
}

func FuzzParseIndex(f *testing.F) {
	f.Add([]byte(`{"format":"x/1","params":{},"params_sha256":"44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a","files":[{"name":"a"}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		ix, err := parseIndex(b)
		if err != nil {
			return
		}
		for _, file := range ix.Files {
			if strings.HasPrefix(filepath.Clean(file.Name), "..") || filepath.IsAbs(file.Name) {
				t.Errorf("file name %q was accepted", file.Name)
			}
		}
	})
}

// TestFixedRunID: a run id that a test has fixed marks its run.
func TestFixedRunID(t *testing.T) {
	testrun.Fix([16]byte{7})
	if run := NewRun(); run.RunID != (stream.RunID{7}) || !run.Test {
		t.Errorf("fixed: %+v", run)
	}
	testrun.Fix([16]byte{})
	if run := NewRun(); run.RunID == (stream.RunID{}) || run.RunID == NewRun().RunID || run.Test {
		t.Errorf("fresh: %+v", run)
	}
}

package graphio_test

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"minsep/internal/graphio"
	"minsep/internal/must"
)

// tree makes files in a folder; a name that ends in a slash is a folder.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, filepath.FromSlash(name))
		must.Do(t, os.MkdirAll(filepath.Dir(path), 0o700))
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

// TestNamesLeftOut: a pattern leaves out what listing a folder leaves out, unless it asks for it.
func TestNamesLeftOut(t *testing.T) {
	dir := tree(t, map[string]string{
		"g/_SUCCESS": "", "g/.part-0.csv.crc": "?", "g/part-0.csv": "1,2\n", "g/_temporary/0/part-9.csv": "9,9\n",
		"g/deep/part-1.csv": "3,4\n", "g/deep/_SUCCESS": "", "g/_kept.csv": "5,6\n",
	})
	both := []edge{{"1", "2"}, {"3", "4"}}
	for _, c := range []struct {
		path string
		want []edge
	}{
		{"g", []edge{{"3", "4"}, {"1", "2"}}}, {"g/*", []edge{{"3", "4"}, {"1", "2"}}}, {"g/d*", both[1:]},
		{"g/*.csv", both[:1]}, {"g/_*.csv", []edge{{"5", "6"}}}, {"g/_kept.csv", []edge{{"5", "6"}}}, {"g/_temporary/*", []edge{{"9", "9"}}}, {"g/*/", nil},
	} {
		got, _, _, err := read([]string{filepath.Join(dir, c.path)}, defaults)
		if err != nil || c.want != nil && !slices.Equal(got, c.want) {
			t.Errorf("%s: got %q, %v; want %q", c.path, got, err, c.want)
		}
	}
	if got, src, _, err := read([]string{filepath.Join(dir, "g"), filepath.Join(dir, "g", "*")}, defaults); err != nil || src.Files != 2 || len(got) != 2 {
		t.Errorf("a folder that is named twice: got %q, %v", got, err)
	}
	t.Chdir(filepath.Join(dir, "g"))
	names := []string{"part-0.csv", "./part-0.csv", "deep/../part-0.csv", filepath.Join(dir, "g", "part-0.csv")}
	if got, src, _, err := read(names, defaults); err != nil || src.Files != 1 || len(got) != 1 {
		t.Errorf("a file by four names: got %q, %v", got, err)
	}
	refuses(t, "a pattern of folders", filepath.Join(dir, "*", "*"), defaults, "only the last part")
	refuses(t, "only names that are left out", filepath.Join(dir, "g", "deep", "[^p]*"), defaults, "no file matches")
}

// TestWaysToNameAFile reads one file by every name that it may have.
func TestWaysToNameAFile(t *testing.T) {
	dir := tree(t, map[string]string{"g/part-0.csv": "1,2\n"})
	must.Do(t, os.Symlink("g", filepath.Join(dir, "link")))
	must.Do(t, os.Symlink("g/part-0.csv", filepath.Join(dir, "file.csv")))
	for _, path := range []string{dir + "/g", dir + "/g/", dir + "/link", dir + "/link/", dir + "/l*k", dir + "/link/*", dir + "/file.csv",
		"file://" + dir + "/g", "file://" + dir + "/link/part-0.csv", "file://" + dir + "/g/*.csv"} {
		got, _, _, err := read([]string{path}, defaults)
		if err != nil || len(got) == 0 || slices.ContainsFunc(got, func(e edge) bool { return e != edge{"1", "2"} }) {
			t.Errorf("%s: got %q, %v", strings.ReplaceAll(path, dir, "DIR"), got, err)
		}
	}
	for path, want := range map[string]string{"-": "standard input", "file://g": "file:///path", "nowhere://g": "must be a local path"} {
		refuses(t, path, path, defaults, want)
	}
}

// changing changes a file once, when a reader comes to the byte after.
type changing struct {
	graphio.Files
	after  int64
	change func()
	once   *sync.Once
}

type changingFile struct {
	graphio.File
	fs *changing
}

func (c *changing) Open(ctx context.Context, name string) (graphio.File, error) {
	f, err := c.Files.Open(ctx, name)
	return changingFile{f, c}, err
}

func (f changingFile) ReadAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) > f.fs.after {
		f.fs.once.Do(f.fs.change)
	}
	return f.File.ReadAt(b, at)
}

// TestFileChangesWhileItIsRead cuts a file, adds to it, writes over it and replaces it, while it is
// looked at and while it is read. No part of it is taken for the whole.
func TestFileChangesWhileItIsRead(t *testing.T) {
	g := graph{false, true, nil}
	for i := range 3000 {
		g.edges = append(g.edges, edge{"x" + string(rune('a'+i%26)), "7"})
	}
	must := func(err error) {
		if err != nil {
			t.Error(err)
		}
	}
	changes := map[string]func(path string, b []byte){
		"cut":  func(path string, b []byte) { must(os.Truncate(path, int64(len(b))*44/100)) },
		"more": func(path string, b []byte) { must(os.WriteFile(path, append(b, b...), 0o600)) },
		"over": func(path string, b []byte) {
			must(os.WriteFile(path, b, 0o600))
			must(os.Chtimes(path, time.Time{}, time.Unix(1e9, 1)))
		},
		"another": func(path string, b []byte) {
			must(os.WriteFile(path+".new", append(b, b...), 0o600))
			must(os.Rename(path+".new", path))
		},
	}
	for name, format := range formats {
		b := format(g)
		for kind, change := range changes {
			for _, later := range []bool{false, true} { // after Open, or in it
				path := write(t, t.TempDir(), name, b)
				fs := &changing{after: 0, change: func() { change(path, b) }, once: new(sync.Once)}
				var emitted int
				src, err := graphio.Open(context.Background(), []string{path}, defaults)
				if !later && err == nil {
					src, err = graphio.Open(context.Background(), []string{path}, graphio.Options{FS: fs})
				}
				if err == nil && later {
					for _, s := range src.Splits() {
						text, fault := json.Marshal(s) // as a worker gets it
						var sent graphio.Split
						err = errors.Join(err, fault, json.Unmarshal(text, &sent), sent.Read(context.Background(), fs, func(b *graphio.Batch) error { emitted += b.Len(); return nil }))
					}
				} else if err == nil {
					err = src.Read(context.Background(), func(b *graphio.Batch) error { emitted += b.Len(); return nil })
				}
				var fault *graphio.Fault
				if kind == "another" && err == nil && emitted == len(g.edges) {
					continue // the file that was opened, whole
				}
				if !errors.As(err, &fault) {
					t.Errorf("%s, %s, later %v: %d of %d edges, %v", name, kind, later, emitted, len(g.edges), err)
				} else if later && !strings.Contains(err.Error(), "changed while it was read") {
					t.Errorf("%s, %s: the fault is not said to be the change: %v", name, kind, err)
				}
			}
		}
	}
}

// TestDigestOfAChangedFile: what is hashed is what was opened.
func TestDigestOfAChangedFile(t *testing.T) {
	path := write(t, t.TempDir(), "g.csv", []byte("1,2\n3,4\n"))
	once := new(sync.Once)
	fs := &changing{after: 1 << 40, change: func() { os.Truncate(path, 4) }, once: once}
	src := must.Get(graphio.Open(context.Background(), []string{path}, graphio.Options{FS: fs}))(t)
	before := src.Stamp()
	must.Get(src.Digest(context.Background()))(t)
	fs.after = 0
	must.Fail(t, "half of a file", "the file was changed while it was read")(src.Digest(context.Background()))
	if src = must.Get(graphio.Open(context.Background(), []string{path}, defaults))(t); src.Stamp() == before {
		t.Error("the same stamp after a change")
	}
}

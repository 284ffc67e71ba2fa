package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"minsep/internal/manifest"
	"minsep/internal/stattest"
	"minsep/internal/stream"
)

const tamperedPlan = `{
	"graph": {"paths": ["graph.tsv"], "header": "no"}, "bound": {"max_examples_per_owner": 1},
	"scheme": {"scheme": "b-min-sep", "steps": 64, "min_sep": 4, "batch_size": 20},
	"strategy": {"kind": "banded-toeplitz", "bands": 4},
	"privacy": {"epsilon": EPSILON, "delta": 1e-2, "samples": 5000},
	"noise": {"coordinates": 1000, "files": true, "steps_per_file": 32, "shards": 2},
	"key": "key",
}`

// tamperedRuns makes three runs of one key in a folder: run; other, of another plan; twin, of run's
// planRequest with another run id. The ledger of run has an earlier protocol.
func tamperedRuns(t *testing.T) (dir string) {
	t.Helper()
	dir = t.TempDir()
	if err := stream.CreateKeyFile(filepath.Join(dir, "key")); err != nil {
		t.Fatal(err)
	}
	var graph strings.Builder
	for e := range 3000 {
		fmt.Fprintf(&graph, "patient-%d\towner-%d\npatient-%d\towner-%d\n", e, e, e, 3000+e/4)
	}
	files := map[string]string{"graph.tsv": graph.String()}
	for plan, epsilon := range map[string]string{"plan.json": "2", "first.json": "1.9", "other.json": "2.1"} {
		files[plan] = strings.Replace(tamperedPlan, "EPSILON", epsilon, 1)
	}
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{"first.json", "--out", "first", "--until", "account"}, {"plan.json", "--out", "first", "--again", "run"},
		{"other.json", "--out", "other"}, {"plan.json", "--out", "twin"}} {
		c := exec.Command(os.Args[0], append([]string{"run", "--quiet"}, args...)...)
		c.Env, c.Dir = append(os.Environ(), beCommand+"=1"), dir
		if out, err := c.CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	return dir
}

// secretsOfRuns is a pattern of what must not be printed of a run: the key, ids, and the sizes of
// the files of batches.
func secretsOfRuns(t *testing.T, dir string) *regexp.Regexp {
	t.Helper()
	key, err := os.ReadFile(filepath.Join(dir, "key"))
	if err != nil {
		t.Fatal(err)
	}
	plan, err := os.ReadFile(filepath.Join(dir, "plan.json"))
	if err != nil {
		t.Fatal(err)
	}
	list := []string{`patient-\d`, `owner-\d`, hex.EncodeToString(key)}
	for _, run := range []string{"run", "other", "twin"} {
		entries, err := os.ReadDir(filepath.Join(dir, run, "batches"))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range entries {
			info, err := e.Info()
			if err != nil {
				t.Fatal(err)
			}
			if e.Name() != "index.json" && !strings.HasPrefix(e.Name(), "indptr") { // whose sizes follow from the plan
				for _, size := range []int64{info.Size(), info.Size() - 1, info.Size() / 2} {
					if number := fmt.Sprintf(`\b%d\b`, size); !regexp.MustCompile(number).Match(plan) { // by chance
						list = append(list, number)
					}
				}
			}
		}
	}
	return regexp.MustCompile(strings.Join(list, "|"))
}

// kindsOfFiles are the files of a run directory, one of those that differ in their numbers only.
func kindsOfFiles(t *testing.T, run string) (names []string) {
	t.Helper()
	seen := map[string]bool{"lock": true, manifest.IgnoreName: true} // the user's to change
	digits := regexp.MustCompile(`[0-9a-f]{64}|\d+`)
	err := filepath.WalkDir(run, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(run, path)
		if kind := digits.ReplaceAllString(name, "#"); !seen[kind] {
			seen[kind] = true
			names = append(names, filepath.ToSlash(name))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// tampering is a fault of a file or folder of a run directory.
type tampering struct {
	name    string
	do      func(path string) error // a path in the run directory
	folders bool                    // whole folders can have it
	always  bool                    // with -short too
}

func tamperings(rng *rand.Rand, dir string) []tampering {
	edit := func(change func(b []byte) []byte) func(string) error {
		return func(path string) error {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			return os.WriteFile(path, change(bytes.Clone(b)), 0o600)
		}
	}
	flip := func(at func(n int) int) func(string) error {
		return edit(func(b []byte) []byte { b[at(len(b))] ^= 1 << rng.IntN(8); return b })
	}
	from := func(run string) func(string) error {
		return func(path string) error {
			name, err := filepath.Rel(filepath.Join(dir, "run"), path)
			if err != nil {
				return err
			}
			source := filepath.Join(dir, run, name)
			if err := os.RemoveAll(path); err != nil {
				return err
			}
			if info, err := os.Stat(source); err == nil && info.IsDir() {
				return os.CopyFS(path, os.DirFS(source))
			}
			b, err := os.ReadFile(source)
			if err != nil {
				return err
			}
			return os.WriteFile(path, b, 0o600)
		}
	}
	return []tampering{
		{"first byte", flip(func(int) int { return 0 }), false, false},
		{"a byte", flip(rng.IntN), false, true},
		{"another byte", flip(rng.IntN), false, false},
		{"last byte", flip(func(n int) int { return n - 1 }), false, false},
		{"cut by one", edit(func(b []byte) []byte { return b[:len(b)-1] }), false, false},
		{"cut in half", edit(func(b []byte) []byte { return b[:len(b)/2] }), false, true},
		{"emptied", edit(func([]byte) []byte { return nil }), false, false},
		{"longer", edit(func(b []byte) []byte { return append(b, '\n') }), false, false},
		{"removed", os.RemoveAll, true, false},
		{"of a run of another plan", from("other"), true, true},
		{"of another run of the plan", from("twin"), true, false},
	}
}

// Every kind of file of a run directory, and every folder, with every fault: both inspect and run
// refuse it and name the file. In the everyday form there are some of the faults.
func TestTamperedRun(t *testing.T) {
	dir := tamperedRuns(t)
	secrets := secretsOfRuns(t, dir)
	t.Chdir(dir)
	t.Setenv("TMPDIR", dir)
	call := func(args ...string) (int, string) {
		os.Setenv("TMPDIR", dir) // which a command sets for its process
		var out bytes.Buffer
		code := execute(context.Background(), args, &out, &out)
		if found := secrets.FindString(out.String()); found != "" {
			t.Errorf("minsep %s prints the secret %q:\n%s", strings.Join(args, " "), found, out.String())
		}
		return code, out.String()
	}
	sound := func() {
		t.Helper()
		if code, out := call("inspect", "run"); code != 0 || strings.Contains(out, "BROKEN") {
			t.Fatalf("inspect of a sound run: %d\n%s", code, out)
		}
		if code, out := call("run", "plan.json", "--out", "run", "--json"); code != 0 || strings.Count(out, `"skipped"`) != 5 {
			t.Fatalf("run in a sound run: %d\n%s", code, out)
		}
	}
	sound()
	kinds := kindsOfFiles(t, "run")
	if len(kinds) < 17 {
		t.Fatalf("kinds of files: %v", kinds)
	}
	names := slices.Concat(kinds, []string{"bounded", "strategy", "ledger", "batches", "noise"})
	before := hashes(t, "run")
	kept := filepath.Join(t.TempDir(), "kept")
	if err := os.CopyFS(kept, os.DirFS("run")); err != nil {
		t.Fatal(err)
	}
	faults := tamperings(rand.New(rand.NewPCG(5, 6)), ".")
	refused, same := 0, 0
	for _, name := range names {
		path := filepath.Join("run", filepath.FromSlash(name))
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range faults {
			if info.IsDir() && !c.folders || !stattest.Long() && !c.always {
				continue
			}
			what := fmt.Sprintf("%s, %s (seed 5, 6)", name, c.name)
			err := c.do(path)
			tampered := hashes(t, "run")
			switch {
			case errors.Is(err, fs.ErrNotExist): // the other run has no such file, for instance no earlier protocol
			case err != nil:
				t.Fatal(err)
			case sameFiles(before, tampered): // certificates and ledgers of one plan are the same
				same++
			default:
				refused++
				if code, out := call("inspect", "run"); code == 0 || !strings.Contains(out, name) {
					t.Errorf("%s: inspect exits with %d\n%s", what, code, out)
				}
				if c.name == "removed" && (info.IsDir() && name != "ledger" || name == "certificate.json") {
					break // run makes it again, with the same bytes
				}
				if code, out := call("run", "plan.json", "--out", "run"); code == 0 || !strings.Contains(out, name) {
					t.Errorf("%s: run exits with %d\n%s", what, code, out)
				}
				if !sameFiles(tampered, hashes(t, "run")) {
					t.Errorf("%s: run changed the directory", what)
				}
			}
			restore(t, filepath.Join(kept, filepath.FromSlash(name)), path)
		}
	}
	sound()
	t.Logf("%d faults of %v refused, %d were none", refused, names, same)
}

// sameFiles compares listings of files, but for their modes.
func sameFiles(a, b map[string]string) bool {
	content := func(list map[string]string) (names []string) {
		for name, text := range list {
			if name != "lock" {
				names = append(names, name+text[strings.IndexByte(text, ' '):])
			}
		}
		slices.Sort(names)
		return names
	}
	return slices.Equal(content(a), content(b))
}

// restore puts a file or folder back as it was.
func restore(t *testing.T, kept, path string) {
	t.Helper()
	err := os.RemoveAll(path)
	if info, e := os.Stat(kept); e == nil && info.IsDir() {
		err = errors.Join(err, os.CopyFS(path, os.DirFS(kept)))
	} else {
		b, e := os.ReadFile(kept)
		err = errors.Join(err, e, os.WriteFile(path, b, 0o600))
	}
	if err != nil {
		t.Fatal(err)
	}
}

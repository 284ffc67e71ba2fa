//go:build unix

package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"
	"unicode"

	"minsep/internal/inspect"
	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/stream"
)

const hostilePlan = `{
	"graph": {"paths": ["graph.csv"]}, "bound": {"max_examples_per_owner": 2},
	"scheme": {"scheme": "fixed", "steps": 16, "min_sep": 4, "batch_size": 4},
	"strategy": {"kind": "banded-toeplitz", "bands": 4},
	"privacy": {"epsilon": 2, "delta": 1e-3},
	"noise": {"coordinates": 10, "files": true, "steps_per_file": 8, "shards": 2},
	"batches": {"shards": 2},
	"key": "key", "out": "run",
}`

// hostileCommands read the run directory each in its own way, and write nothing in it.
var hostileCommands = strings.Split(`inspect run
run plan.json
run plan.json --again next --dry-run
report run --out page.html
inspect run --json --show-secret
inspect run --verbose
compose run
form --bounded run --scheme poisson --steps 10 --prob 0.1 --key key --out other --dry-run
account --bounded run --scheme fixed --steps 16 --min-sep 4 --batch-size 4 --strategy run/strategy/strategy.json --epsilon 2 --delta 1e-3 --out run --dry-run
noise --files --strategy run/strategy/strategy.json --noise-multiplier 9 --steps 16 --coordinates 10 --key key --out run --dry-run`, "\n")

// hostileMemory is what a command may allocate on a directory whose honest form takes some MiB, all
// its life long.
const hostileMemory = 512 << 20

// hostileTime only tells a command that hangs from one that is slow.
const hostileTime = 3 * time.Minute

// TestHostileDirectory rewrites every file of a run directory: its kind, a bit of it, the numbers in
// it, with the hashes that cover them as they were and made anew, or all of it, by that of another
// run. Whatever is there, each command ends with an exit code of its own, in bounded memory, and names
// no id; inspect calls it broken unless hashes were made anew, and run neither takes it for its result
// nor changes it. Every case runs with MINSEP_HOSTILE=all, and a
// sample of them without.
func TestHostileDirectory(t *testing.T) {
	dir := t.TempDir()
	t.Chdir(dir)
	t.Setenv("TMPDIR", dir)
	var graph strings.Builder
	graph.WriteString("example_id,owner_id\n")
	for e := range 60 {
		fmt.Fprintf(&graph, "patient-%d,owner-%d\n", e, e/2)
	}
	other := strings.Replace(hostilePlan, `"epsilon": 2`, `"epsilon": 3`, 1)
	err := errors.Join(os.WriteFile("graph.csv", []byte(graph.String()), 0o600), os.WriteFile("plan.json", []byte(hostilePlan), 0o600),
		os.WriteFile("other.json", []byte(other), 0o600), stream.CreateKeyFile("key"))
	must.Do(t, err)
	h := hostile{t: t}
	for _, args := range [][]string{{"run", "plan.json", "--quiet"}, {"run", "other.json", "--out", "other", "--quiet"}} {
		if code, out := h.call(args...); code != 0 {
			t.Fatalf("%v: %d\n%s", args, code, out)
		}
	}
	if code, out := h.call("inspect", "run"); code != 0 || !strings.HasPrefix(out, "certified: ") {
		t.Fatalf("inspect of the run: %d\n%s", code, out)
	}
	must.Do(t, os.Rename("run", "kept"))
	cases := hostileCases(t, "kept")
	rng := rand.New(rand.NewPCG(7, 8))
	if os.Getenv("MINSEP_HOSTILE") != "all" {
		rng.Shuffle(len(cases), func(i, j int) { cases[i], cases[j] = cases[j], cases[i] })
		cases = sampleOfKinds(cases, 60)
	}
	for i, c := range cases {
		h.try(c, i)
	}
	t.Logf("%d cases: %d broken, %d certified; at most %d MiB allocated", len(cases), h.broken, h.certified, h.most>>20)
	if h.broken < len(cases)/2 {
		t.Error("too few of them were broken: the cases are not what they were")
	}
}

// TestForgedInput has forged strings in every place of a plan, in names of columns and in names of
// files: no command prints what acts on a terminal, or a line with a verdict that is not minsep's.
func TestForgedInput(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("TMPDIR", os.TempDir()) // which calls change
	h := hostile{t: t}
	write := func(name, text string) {
		t.Helper()
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	}
	header := "\"" + forged + "\"," + strings.ReplaceAll(forged, "\n", " ")
	write("graph.csv", header+"\n1,1\n2,2\n3,"+forged+"\n")
	write(forged+".csv", "example_id,owner_id\n1,1\n")
	must.Do(t, stream.CreateKeyFile("key"))
	for _, c := range forgedCases("string", texts, "plan.json", []byte(hostilePlan)) {
		if c.resealed {
			continue
		}
		write("plan.json", hostilePlan)
		must.Do(t, c.make("."))
		h.call("run", "plan.json")
		h.call("run", "plan.json", "--dry-run", "--json")
	}
	for _, graph := range []string{"graph.csv", forged + ".csv", "*.csv", "."} {
		h.call("bound", "--graph", graph, "--max-per-owner", "1", "--key", "key", "--out", "run", "--header", "yes")
		h.call("plan", "--graph", graph, "--example-column", "no", "--max-per-owner", "1", "--steps", "2", "--batch-size", "1", "--epsilon", "8", "--delta", "1e-3")
	}
	for _, command := range []string{"inspect", "report", "run", "compose", "keygen", forged} {
		h.call(command, forged)
		h.call(command, "--"+forged, forged)
		h.call(command, "--out", forged, "--json")
	}
}

type hostile struct {
	t                 *testing.T
	broken, certified int
	most              uint64
}

// call runs a command, and fails if it hangs or takes more memory than it may.
func (h *hostile) call(args ...string) (int, string) {
	h.t.Helper()
	os.Setenv("TMPDIR", h.t.TempDir()) // which a command sets for its process
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var out bytes.Buffer
	ended := make(chan int, 1)
	ctx, cancel := context.WithTimeout(context.Background(), hostileTime)
	defer cancel()
	go func() { ended <- execute(ctx, args, &out, &out) }()
	select {
	case code := <-ended:
		runtime.ReadMemStats(&after)
		took := after.TotalAlloc - before.TotalAlloc
		h.most = max(h.most, took)
		if took > hostileMemory {
			h.t.Errorf("minsep %s allocates %d MiB", strings.Join(args, " "), took>>20)
		}
		if ctx.Err() != nil {
			h.t.Errorf("minsep %s hangs", strings.Join(args, " "))
		}
		if strings.Contains(out.String(), "a fault of the program") {
			h.t.Errorf("minsep %s panics:\n%s", strings.Join(args, " "), &out)
		}
		mustBeText(h.t, args, out.String())
		var report inspect.Report // for programs, whose users read the texts in it
		if json.Unmarshal(out.Bytes(), &report) == nil {
			mustBeText(h.t, args, report.Verdict)
			for _, i := range report.Folders {
				mustBeText(h.t, args, strings.Join(i.Notes, " "))
				for _, c := range i.Checks {
					mustBeText(h.t, args, c.Rule)
				}
			}
		}
		return code, out.String()
	case <-time.After(hostileTime + time.Minute):
		h.t.Fatalf("minsep %s hangs, and does not stop", strings.Join(args, " "))
		return 0, ""
	}
}

// forged is what must not be printed: it acts on a terminal, and would begin a line with a verdict.
const forged = "x\r\x1b[2J\x1b[H\u009b2J\u202e\ncertified: (1, 1)-DP for all"

// ids are those of the graph, which are in no message.
var ids = regexp.MustCompile(`(patient|owner)-\d+`)

// mustBeText requires that nothing printed does anything on a terminal, and that no line begins
// with a verdict that minsep does not come to.
func mustBeText(t *testing.T, args []string, printed string) {
	t.Helper()
	if id := ids.FindString(printed); id != "" {
		t.Errorf("minsep %q prints %s:\n%s", args, id, printed)
	}
	for _, r := range printed {
		if !unicode.IsGraphic(r) && r != '\n' && r != '\t' {
			t.Errorf("minsep %q prints %q:\n%q", args, r, printed)
			return
		}
	}
	if strings.Contains(printed, "\ncertified: (1, 1)") || strings.HasPrefix(printed, "certified: (1, 1)") {
		t.Errorf("minsep %q prints a forged verdict:\n%s", args, printed)
	}
}

// try makes the case and runs the commands on it: inspect always, the others in turn.
func (h *hostile) try(c hostileCase, turn int) {
	h.t.Helper()
	must.Do(h.t, errors.Join(os.RemoveAll("run"), os.CopyFS("run", os.DirFS("kept"))))
	err := filepath.WalkDir("kept", func(path string, d fs.DirEntry, err error) error { // modes, which CopyFS leaves out
		if err != nil {
			return err
		}
		info, err := d.Info()
		return errors.Join(err, os.Chmod("run"+strings.TrimPrefix(path, "kept"), info.Mode().Perm()))
	})
	if err = errors.Join(err, c.make("run")); err != nil {
		h.t.Fatalf("%s: %v", c.name, err)
	}
	harmless := c.resealed || maps.Equal(listingOf("run"), listingOf("kept"))
	code, out := h.call("inspect", "run")
	if c.names != "" && !harmless && !strings.Contains(out, c.names) {
		h.t.Errorf("%s: inspect does not name it:\n%s", c.name, out)
	}
	verdict, _, _ := strings.Cut(out, "\n")
	switch {
	case code == exitNotVerified && strings.HasPrefix(verdict, "BROKEN: "):
		h.broken++
	case code == exitOK && harmless:
		h.certified++
	default:
		h.t.Errorf("%s: inspect ends with %d: %s", c.name, code, verdict)
	}
	args := strings.Fields(hostileCommands[1+turn%(len(hostileCommands)-1)])
	if c.names != "" {
		args = strings.Fields(hostileCommands[1])
	}
	before := listingOf("run")
	switch code, out := h.call(args...); {
	case code > exitNotVerified, code < 0:
		h.t.Errorf("%s: %v ends with %d: %s", c.name, args, code, out)
	case c.names != "" && code != exitOK && (!strings.Contains(out, c.names) || !maps.Equal(before, listingOf("run"))):
		h.t.Errorf("%s: run does not name it, or changes the directory:\n%s", c.name, out)
	case args[0] == "report":
		if page, err := os.ReadFile("page.html"); err == nil {
			mustBeText(h.t, args, strings.ReplaceAll(string(page), "\n", " ")) // as a browser has it
		}
	case args[0] == "run" && len(args) == 2 && code == exitOK && !harmless && c.kind != "removed" && strings.Contains(out, "verified"):
		h.t.Errorf("%s: run takes it for its result:\n%s", c.name, out)
	}
}

// hostileCase is something that is done to a run directory.
type hostileCase struct {
	name     string
	kind     string // of what is done: some of every kind are tried
	resealed bool   // the hashes were made anew: it may be called sound
	make     func(run string) error
	names    string // what inspect and run must name; "" if any name will do
}

func hostileCases(t *testing.T, run string) (cases []hostileCase) {
	t.Helper()
	err := filepath.WalkDir(run, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == run || d.Name() == manifest.IgnoreName { // the user's to change
			return err
		}
		name := strings.TrimPrefix(path, run+"/")
		cases = append(cases, kindCases(name)...)
		if name != "lock" {
			cases = append(cases, hostileCase{name + " is of another run", "of another run", false, func(run string) error {
				return errors.Join(os.RemoveAll(filepath.Join(run, name)), copyAny(filepath.Join("other", name), filepath.Join(run, name)))
			}, name})
			if !d.IsDir() {
				cases = append(cases, bitCases(name)...)
			}
		}
		if d.IsDir() {
			cases = append(cases, nameCases(name)...)
			return nil
		}
		b, err := os.ReadFile(path)
		switch {
		case err != nil:
			return err
		case strings.HasSuffix(name, ".npy"):
			cases = append(cases, numberCases(name, b[:128])...)
		case strings.HasSuffix(name, ".parquet"):
			cases = append(cases, byteCases(name, len(b))...)
		default:
			cases = append(cases, numberCases(name, b)...)
			cases = append(cases, forgedCases("string", texts, name, b)...)
			cases = append(cases, forgedCases("field", fields, name, b)...)
		}
		return nil
	})
	must.Do(t, err)
	return append(cases, nameCases(".")...)
}

// bitCases flip a bit of the first byte, of the last one and of one between them.
func bitCases(name string) (cases []hostileCase) {
	for at := range 3 {
		flip := func(b []byte) []byte { b[at*(len(b)-1)/2] ^= 4; return b }
		cases = append(cases, hostileCase{fmt.Sprintf("%s has a flipped bit, %d", name, at), "a flipped bit", false, rewriting(name, false, flip), name})
	}
	return cases
}

// rewriting changes the contents of a file, and with reseals the hashes that cover it.
func rewriting(name string, reseals bool, change func([]byte) []byte) func(run string) error {
	return func(run string) error {
		path := filepath.Join(run, name)
		b, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		sums := sumsOf(run)
		if err := os.WriteFile(path, change(b), 0o600); err != nil || !reseals {
			return err
		}
		return reseal(run, sums)
	}
}

// copyAny copies a file or a folder.
func copyAny(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return os.CopyFS(to, os.DirFS(from))
	}
	return os.WriteFile(to, b, 0o600)
}

// fields are the names of fields of JSON.
var fields = regexp.MustCompile(`[{,]\s*"((?:[^"\\]|\\.)*)"\s*:`)

// nameCases put a file and a folder of a forged name into a folder.
func nameCases(folder string) []hostileCase {
	return []hostileCase{
		{folder + " has a file of a forged name", "forged names", false, func(run string) error {
			return os.WriteFile(filepath.Join(run, folder, forged+".npy"), []byte("x"), 0o600)
		}, ""},
		{folder + " has a folder of a forged name", "forged names", false, func(run string) error {
			path := filepath.Join(run, folder, "batches-"+forged)
			return errors.Join(os.Mkdir(path, 0o700), os.WriteFile(filepath.Join(path, "x"), []byte("x"), 0o600))
		}, ""},
	}
}

// texts are the strings of JSON that are no names of fields.
var texts = regexp.MustCompile(`[:\[,]\s*"((?:[^"\\]|\\.)*)"\s*[,}\]\n]`)

// forgedCases rewrite the first group of every match of pattern in JSON, a field or a string, with
// the hashes as they were and made anew.
func forgedCases(kind string, pattern *regexp.Regexp, name string, text []byte) (cases []hostileCase) {
	now, err := json.Marshal(forged)
	if err != nil {
		panic(err)
	}
	for i, at := range pattern.FindAllSubmatchIndex(text, -1) {
		for _, reseals := range []bool{false, true} {
			what := fmt.Sprintf("%s: %s %d, %s, is forged, resealed: %v", name, kind, i, text[at[2]:at[3]], reseals)
			forge := func(b []byte) []byte { return slices.Concat(b[:at[2]], now[1:len(now)-1], b[at[3]:]) }
			cases = append(cases, hostileCase{what, fmt.Sprintf("%ss of %s, %v", kind, filepath.Base(name), reseals), reseals, rewriting(name, reseals, forge), ""})
		}
	}
	return cases
}

// kindCases put something else in place of a file or folder.
func kindCases(name string) (cases []hostileCase) {
	for _, kind := range []struct {
		name string
		make func(path string) error
	}{
		{"a pipe", func(path string) error { return syscall.Mkfifo(path, 0o600) }},
		{"a folder", func(path string) error { return os.Mkdir(path, 0o700) }},
		{"a link to itself", func(path string) error { return os.Symlink(filepath.Base(path), path) }},
		{"a link out", func(path string) error { return os.Symlink("/etc/passwd", path) }},
		{"a link to nothing", func(path string) error { return os.Symlink("nothing", path) }},
		{"a device", func(path string) error { return os.Symlink("/dev/zero", path) }},
		{"an empty file", func(path string) error { return os.WriteFile(path, nil, 0o600) }},
		{"2^40 bytes of nothing", func(path string) error {
			return errors.Join(os.WriteFile(path, []byte("{"), 0o600), os.Truncate(path, 1<<40))
		}},
		{"spaces", func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte(" "), 1<<22), 0o600) }},
		{"brackets", func(path string) error { return os.WriteFile(path, bytes.Repeat([]byte(`{"a":[`), 1<<18), 0o600) }},
	} {
		cases = append(cases, hostileCase{name + " is " + kind.name, kind.name, name == "lock", func(run string) error {
			path := filepath.Join(run, name)
			return errors.Join(os.RemoveAll(path), kind.make(path))
		}, ""})
	}
	return append(cases, hostileCase{name + " is removed", "removed", name == "lock", func(run string) error {
		return os.RemoveAll(filepath.Join(run, name))
	}, ""}, hostileCase{name + " is cut", "cut", name == "lock", func(run string) error {
		path := filepath.Join(run, name)
		if info, err := os.Stat(path); err != nil || info.IsDir() {
			return errors.Join(err, os.RemoveAll(path), os.WriteFile(path, nil, 0o600))
		}
		b, err := os.ReadFile(path)
		return errors.Join(err, os.WriteFile(path, b[:len(b)/2], 0o600))
	}, ""})
}

// numbers are those of JSON, and of the shapes of .npy files.
var numbers = regexp.MustCompile(`[\[ :,(-]([0-9]+(\.[0-9]+)?([eE][-+]?[0-9]+)?)[\],\n) }]`)

// numberCases rewrite every number of a text, with the hashes as they were and made anew.
func numberCases(name string, text []byte) (cases []hostileCase) {
	extremes := strings.Fields("0 -1 1 2 7 65536 2147483648 9007199254740992 9223372036854775807 1e308 1e-300 0.5")
	for i, at := range numbers.FindAllSubmatchIndex(text, -1) {
		was := string(text[at[2]:at[3]])
		for j := range 3 {
			now := extremes[(i*3+j*5)%len(extremes)]
			if now == was {
				continue
			}
			for _, reseals := range []bool{false, true} {
				what := fmt.Sprintf("%s: number %d, %s, is %s, resealed: %v", name, i, was, now, reseals)
				change := func(b []byte) []byte { return slices.Concat(b[:at[2]], []byte(now), b[at[3]:]) }
				cases = append(cases, hostileCase{what, fmt.Sprintf("numbers of %s, %v", filepath.Base(name), reseals), reseals, rewriting(name, reseals, change), ""})
			}
		}
	}
	return cases
}

// byteCases change bytes of a file that is no text.
func byteCases(name string, size int) (cases []hostileCase) {
	rng := rand.New(rand.NewPCG(1, uint64(size)))
	for range 60 {
		at, with, reseals := rng.IntN(size), byte(rng.IntN(255)+1), rng.IntN(2) == 0
		change := func(b []byte) []byte { b[at] ^= with; return b }
		cases = append(cases, hostileCase{fmt.Sprintf("%s: byte %d, resealed: %v", name, at, reseals), "bytes of parquet", reseals, rewriting(name, reseals, change), ""})
	}
	return cases
}

// sampleOfKinds takes cases of every kind in turn, n in all.
func sampleOfKinds(cases []hostileCase, n int) (sample []hostileCase) {
	byKind, kinds := map[string][]hostileCase{}, []string{}
	for _, c := range cases {
		if byKind[c.kind] == nil {
			kinds = append(kinds, c.kind)
		}
		byKind[c.kind] = append(byKind[c.kind], c)
	}
	for round := 0; len(sample) < min(n, len(cases)); round++ {
		for _, kind := range kinds {
			if of := byKind[kind]; round < len(of) && len(sample) < n {
				sample = append(sample, of[round])
			}
		}
	}
	return sample
}

// listingOf are the kinds and contents of what is in a directory, but for what nobody misses:
// folders, empty files, and links to nothing.
func listingOf(dir string) map[string]string {
	list := map[string]string{}
	filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		info, missing := os.Stat(path)
		if err != nil || d.IsDir() || errors.Is(missing, fs.ErrNotExist) {
			return err
		}
		text := fmt.Sprint(d.Type())
		if d.Type().IsRegular() && info.Size() < 1<<30 {
			b, err := os.ReadFile(path)
			if len(b) == 0 {
				return err
			}
			text += fmt.Sprint(sha256.Sum256(b), err)
		}
		list[strings.TrimPrefix(path, dir)] = text
		return nil
	})
	return list
}

// sumsOf are the SHA-256 of the files of a run directory.
func sumsOf(run string) map[string]string {
	sums := map[string]string{}
	filepath.WalkDir(run, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			b, _ := os.ReadFile(path)
			sum := sha256.Sum256(b)
			sums[path] = hex.EncodeToString(sum[:])
		}
		return nil
	})
	return sums
}

// reseal makes every hash in a run directory anew that covers something that was changed: those of
// files wherever they are named, those of parameters, and that of run.json of itself.
func reseal(run string, was map[string]string) error {
	for range 6 { // as long as the chains of files that name each other
		paths, _ := filepath.Glob(run + "/*/index.json")
		for _, path := range append(paths, run+"/run.json", run+"/noise/recipe.json") {
			if err := resealOwn(path); err != nil {
				return err
			}
		}
		now := sumsOf(run)
		for changed, old := range was {
			if now[changed] == old {
				continue
			}
			for path := range now {
				if !strings.HasSuffix(path, ".json") || path == changed {
					continue
				}
				b, err := os.ReadFile(path)
				if err == nil {
					err = os.WriteFile(path, bytes.ReplaceAll(b, []byte(old), []byte(now[changed])), 0o600)
				}
				if err != nil {
					return err
				}
			}
		}
		was = now
	}
	return nil
}

// resealOwn makes the hashes anew that a file has of its own parts.
func resealOwn(path string) error {
	b, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	var parts map[string]json.RawMessage
	if json.Unmarshal(b, &parts) != nil {
		return nil // what is no JSON has no hash
	}
	put := func(old json.RawMessage, of []byte) {
		var digest string
		var compact bytes.Buffer
		if json.Unmarshal(old, &digest) != nil || len(digest) != 64 || json.Compact(&compact, of) != nil {
			return
		}
		sum := sha256.Sum256(compact.Bytes())
		b = bytes.ReplaceAll(b, []byte(digest), []byte(hex.EncodeToString(sum[:])))
	}
	put(parts["params_sha256"], parts["params"])
	var plan map[string]json.RawMessage
	if json.Unmarshal(parts["plan"], &plan) == nil {
		put(plan["sha256"], plan["plan"])
	}
	var own string
	if filepath.Base(path) == "run.json" && json.Unmarshal(parts["sha256"], &own) == nil && len(own) == 64 {
		zeros := bytes.ReplaceAll(b, []byte(own), bytes.Repeat([]byte("0"), 64))
		sum := sha256.Sum256(zeros)
		b = bytes.ReplaceAll(zeros, bytes.Repeat([]byte("0"), 64), []byte(hex.EncodeToString(sum[:])))
	}
	return os.WriteFile(path, b, 0o600)
}

package integration

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"minsep/internal/must"
)

// block is a fenced block of a document.
type block struct {
	line           int // of its first line of text
	language, text string
}

// exampleLink matches a link from a page in docs to a program that stands in a file of its own.
var exampleLink = regexp.MustCompile(`\]\(\.\./(python/examples/\w+\.py)\)`)

// blocks reads the fenced blocks of a Markdown file and, where it links to programs in
// python/examples, these programs, in the order in which a reader meets them.
func blocks(t *testing.T, file string) (found []block) {
	t.Helper()
	content := must.Get(os.ReadFile(file))(t)
	inside := false
	for i, line := range strings.Split(string(content), "\n") {
		language, fence := strings.CutPrefix(line, "```")
		switch {
		case fence && inside:
			inside = false
		case fence:
			inside = true
			found = append(found, block{line: i + 2, language: language})
		case inside:
			last := &found[len(found)-1]
			last.text += line + "\n"
		default:
			for _, m := range exampleLink.FindAllStringSubmatch(line, -1) {
				program, err := os.ReadFile("../" + m[1])
				if err != nil {
					t.Fatalf("%s:%d: %v", file, i+1, err)
				}
				found = append(found, block{line: i + 1, language: "python", text: string(program)})
			}
		}
	}
	if inside {
		t.Fatalf("%s: a block is not closed", file)
	}
	return found
}

// makeTarget matches a line that runs a target of the Makefile: those are not run here, but must be
// there.
var makeTarget = regexp.MustCompile(`(?m)^make ([a-z-]+).*\n`)

// installs matches a line that installs the Python package, in whose place programs find its
// source, and the shell the command of the clone.
var installs = regexp.MustCompile(`(?m)^pip install .*\n`)

// newClone returns a folder in which the documents' commands can be typed: it has what `make build`
// makes, the graph of the demo and the .gitignore, and edges.csv, which belongs to the user.
func newClone(t *testing.T, bin string) string {
	t.Helper()
	dir := t.TempDir()
	root := must.Get(filepath.Abs(".."))(t)
	for _, folder := range []string{"bin", "integration"} {
		must.Do(t, os.Mkdir(filepath.Join(dir, folder), 0o700))
	}
	for to, from := range map[string]string{"bin/minsep": bin, "integration/testdata": filepath.Join(root, "integration", "testdata"),
		".gitignore": filepath.Join(root, ".gitignore")} {
		must.Do(t, os.Symlink(from, filepath.Join(dir, to)))
	}
	var edges strings.Builder
	edges.WriteString("example_id,owner_id\n")
	rng := rand.New(rand.NewPCG(1, 1))
	for e := range 30_000 {
		for range 1 + rng.IntN(2) {
			fmt.Fprintf(&edges, "%d,%d\n", e, rng.IntN(20_000))
		}
	}
	must.Do(t, os.WriteFile(filepath.Join(dir, "edges.csv"), []byte(edges.String()), 0o600))
	return dir
}

// TestDocuments types every block of a document in the order in which it stands, as a newcomer
// does, in a folder of its own. Blocks in other languages than the shell's and Python are an error:
// they would not be tested.
func TestDocuments(t *testing.T) {
	if testing.Short() {
		t.Skip("runs all commands of README and readers: not with -short")
	}
	bin := buildCommand(t)
	makefile := must.Get(os.ReadFile("../Makefile"))(t)
	for _, file := range []string{"README.md", "docs/background/readers.md"} {
		t.Run(file, func(t *testing.T) {
			t.Parallel()
			dir, ran := newClone(t, bin), 0
			for _, b := range blocks(t, "../"+file) {
				for _, target := range makeTarget.FindAllStringSubmatch(b.text, -1) {
					if !strings.Contains(string(makefile), "\n"+target[1]+":") {
						t.Errorf("%s:%d: no target %s", file, b.line, target[1])
					}
				}
				at := fmt.Sprintf("%s:%d", file, b.line)
				switch text := installs.ReplaceAllString(makeTarget.ReplaceAllString(b.text, ""), ""); {
				case b.language == "python":
					t.Run(fmt.Sprintf("Python of line %d", b.line), func(t *testing.T) { runPython(t, at, dir, text) })
				case b.language != "":
					t.Errorf("%s: a block in %q: nothing runs it", at, b.language)
				case text != "":
					ran++
					runShell(t, at, dir, text)
				}
			}
			if ran < 1 {
				t.Errorf("%d blocks were run", ran)
			}
			ignored(t, dir)
		})
	}
}

func runShell(t *testing.T, at, dir, text string) {
	t.Helper()
	cmd := exec.Command("bash", "-e", "-o", "pipefail", "-c", text)
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(dir, "bin")+string(os.PathListSeparator)+os.Getenv("PATH"), "HOME="+dir, "XDG_CONFIG_HOME="+filepath.Join(dir, "out", "config"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s: %v\n%s\n%s", at, err, text, out)
	}
}

// runProgram runs a program of Python in a folder.
func runProgram(at, dir, python, program string, env ...string) error {
	file := filepath.Join(dir, "out", "program.py") // in a file, which worker processes can import
	if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(program), 0o644)); err != nil {
		return err
	}
	cmd := exec.Command(python, file)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), env...)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w\n%s\n%s", at, err, program, out)
	}
	return nil
}

// everyBatch follows a snippet that defines batch(step). With a file in the folder that the index
// does not list, which no snippet may read, it holds every batch against the shards' files laid end
// to end.
const everyBatch = `
import glob
want = [np.load(f"%[1]s/batches/{kind}-{s:05d}-of-{n:05d}.npy")
        for n in [len(glob.glob("%[1]s/batches/rows-*-of-*.npy"))] for s in range(n) for kind in ("indptr", "rows")]
sizes = np.concatenate([np.diff(w) for w in want[0::2]])
order = [*range(len(sizes) - 1, -1, -1), *range(len(sizes))]  # from any step
got = {step: np.array(batch(step)) for step in order}
assert [len(got[t]) for t in range(len(sizes))] == list(sizes)
assert np.array_equal(np.concatenate([got[t] for t in range(len(sizes))]), np.concatenate(want[1::2]))
assert len(sizes) == %[2]d, len(sizes)
try:
    batch(len(sizes))
    raise SystemExit("there is no such step")
except IndexError:
    pass
`

// everyOwnerBatch follows a snippet that defines owners_of(step) and update(gradient, step). It
// holds both against the files, owner by owner.
const everyOwnerBatch = `
per_owner, clip = index["facts"]["examples_per_owner"], 0.5
vector = lambda row: np.array([np.sin(row), np.cos(3 * row)])
step, seen = 0, 0
for indptr, rows, owners in shards:
    assert owners[0] == 0 and owners[-1] == len(rows) and (np.diff(owners) > 0).all() and (np.diff(owners) <= per_owner).all()
    for t in range(len(indptr) - 1):
        want = [list(rows[a:b]) for a, b in zip(owners[:-1], owners[1:]) if indptr[t] <= a < indptr[t + 1]]
        got = owners_of(step)
        assert [list(g) for g in got] == want and sum(map(len, want)) == indptr[t + 1] - indptr[t]
        means = [np.mean([vector(r) for r in g if r >= 0], axis=0) for g in want if max(g) >= 0]
        total = sum((m * min(1, clip / np.linalg.norm(m)) for m in means), np.zeros(2))
        assert np.allclose(update(vector, step, clip), total)
        step, seen = step + 1, seen + len(means)
assert step == %d and seen > step
try:
    owners_of(step)
    raise SystemExit("there is no such step")
except IndexError:
    pass
`

// everyOwner runs a check of batches of owners: of several shards, and padded.
func everyOwner(t *testing.T, at, dir string, script func(dir, check string)) {
	for shards, how := range map[int]string{1: "", 3: "--max-batch-size 40 --pad", 7: "--max-batch-size 40"} {
		other := newClone(t, filepath.Join(dir, "bin", "minsep"))
		const steps = 20
		runShell(t, at, other, fmt.Sprintf("bin/minsep keygen key\n"+
			"mkdir -p out && awk -F, '!seen[$1]++' edges.csv > out/single.csv\n"+
			"bin/minsep bound --graph out/single.csv --max-per-owner 5 --key key --out out/single --quiet\n"+
			"bin/minsep form --bounded out/single --scheme b-min-sep --steps %d --min-sep 4 --batch-size 35 %s --shards %d "+
			"--sample owners --examples-per-owner 2 --key key --out out/single --quiet\n", steps, how, shards))
		script(other, fmt.Sprintf(everyOwnerBatch, steps))
	}
}

// runPython runs a snippet on the run directory as it is, and on others of several shards.
func runPython(t *testing.T, at, dir, text string) {
	packages := "numpy"
	if strings.Contains(text, "pyarrow") {
		packages += ", pyarrow.parquet"
	}
	python := pythonWith(t, packages)
	source := must.Get(filepath.Abs("../python"))(t)
	script := func(dir, text string) {
		t.Helper()
		var env []string
		if strings.Contains(text, "import minsep") {
			env = []string{"PYTHONPATH=" + source, "PYTHONDONTWRITEBYTECODE=1"}
		}
		must.Do(t, runProgram(at, dir, python, text, env...))
	}
	script(dir, text)
	if strings.Contains(text, "def owners_of(") {
		everyOwner(t, at, dir, func(dir, check string) { script(dir, text+check) })
		return
	}
	if !strings.Contains(text, "def batch(") {
		return
	}
	folder := "run"
	if strings.Contains(text, "run-stages/") {
		folder = "run-stages"
	}
	for shards, steps := range map[int]int{1: 7, 3: 20, 12: 100} {
		other := newClone(t, filepath.Join(dir, "bin", "minsep"))
		runShell(t, at, other, fmt.Sprintf("bin/minsep keygen key\n"+
			"bin/minsep bound --graph edges.csv --max-per-owner 1 --key key --out %[1]s --quiet\n"+
			"bin/minsep form --bounded %[1]s --scheme b-min-sep --steps %[2]d --min-sep 4 --batch-size 50 --shards %[3]d --key key --out %[1]s --quiet\n"+
			"cp %[1]s/batches/rows-00000-of-*.npy %[1]s/batches/rows-.npy\n"+
			"cp %[1]s/batches/indptr-00000-of-*.npy %[1]s/batches/indptr-.npy\n"+
			"cp %[1]s/bounded/part-00000.parquet %[1]s/bounded/part-.parquet\n", folder, steps, shards))
		script(other, text+fmt.Sprintf(everyBatch, folder, steps))
	}
}

// ignored requires that git would not add anything that the commands left, keys and secret batches
// above all.
func ignored(t *testing.T, dir string) {
	t.Helper()
	if _, err := exec.LookPath("git"); err != nil {
		t.Log("git is not here: what .gitignore covers is not tested")
		return
	}
	git := func(args ...string) string {
		cmd := exec.Command("git", args...)
		cmd.Dir = dir
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return string(out)
	}
	// .gitignore must be a file: git does not follow a link.
	content := must.Get(os.ReadFile(filepath.Join(dir, ".gitignore")))(t)
	must.Do(t, os.Remove(filepath.Join(dir, ".gitignore")))
	must.Do(t, os.WriteFile(filepath.Join(dir, ".gitignore"), content, 0o600))
	git("init", "-q")
	for line := range strings.Lines(git("status", "--porcelain", "--untracked-files=all")) {
		switch name := strings.TrimSpace(strings.TrimPrefix(line, "??")); name {
		case ".gitignore", "edges.csv", "integration/testdata":
		default:
			t.Errorf(".gitignore does not cover %s", name)
		}
	}
}

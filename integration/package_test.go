package integration

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"minsep/internal/manifest"
	"minsep/internal/must"
)

// newWheel builds the wheel of the Python package without the command, and installs it into a
// folder of its own, which it returns. Without what builds wheels that is the source.
func newWheel(t *testing.T, python string) string {
	t.Helper()
	source := must.Get(filepath.Abs("../python"))(t)
	if err := exec.Command(python, "-c", "import hatchling, pip").Run(); err != nil {
		t.Log("python3 with hatchling and pip is not here: the package is tested from its source, not from a wheel")
		return source
	}
	dir := t.TempDir()
	wheels, site := filepath.Join(dir, "wheels"), filepath.Join(dir, "site")
	if out, err := hatchling(python, "wheel", source, wheels, "MINSEP_PLATFORM=none"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	built, err := filepath.Glob(filepath.Join(wheels, "minsep-*-py3-none-any.whl"))
	if err != nil || len(built) != 1 {
		t.Fatalf("wheels %v: %v", built, err)
	}
	pip := exec.Command(python, "-m", "pip", "--disable-pip-version-check", "-q", "install", "--no-deps", "--no-index", "--target", site, built[0])
	if out, err := pip.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return site
}

// TestPythonPackage builds the wheel of the Python package and runs the package's own tests on it,
// with the command of this commit.
func TestPythonPackage(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command and a wheel: not with -short")
	}
	python := pythonWith(t, "numpy")
	source := must.Get(filepath.Abs("../python/tests"))(t)
	dir := t.TempDir()
	must.Do(t, os.Symlink(source, filepath.Join(dir, "tests")))
	site, bin := newWheel(t, python), buildCommand(t)
	// NumPy's run has every test, and each framework's those that were skipped for want of a package until then.
	tests := []string{"discover", "-v", "-t", ".", "-s", "tests"}
	for _, framework := range []string{"numpy", "jax", "torch", "hf"} {
		t.Run(framework, func(t *testing.T) {
			python := python
			if framework != "numpy" {
				python = needTrainer(t, framework)
			}
			cmd := exec.Command(python, append([]string{"-m", "unittest"}, tests...)...)
			cmd.Dir = dir
			cmd.Env = append(os.Environ(), "PYTHONPATH="+site, "MINSEP_COMMAND="+bin, "TMPDIR="+dir, "PYTHONDONTWRITEBYTECODE=1")
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%s: %v\n%s", python, err, out)
			}
			tests = []string{"-v"}
			for _, m := range skippedTest.FindAllStringSubmatch(string(out), -1) {
				tests = append(tests, m[1])
			}
			t.Logf("these tests need other packages: %q", tests[1:])
		})
		if len(tests) == 1 {
			t.Fatalf("%s: no test was skipped for want of a package: which are the others' tests?", framework)
		}
	}
}

// skippedTest matches what unittest says of a test that needs a package.
var skippedTest = regexp.MustCompile(`(?m)^\w+ \((tests[\w.]+)\)(?:\n.*)? \.\.\. skipped '.* not installed'$`)

// needTrainer returns the Python with the packages of a framework, and skips the test by their
// name where they are not.
func needTrainer(t *testing.T, framework string) string {
	t.Helper()
	python := trainer(t, framework)
	if python == "" {
		packages, fetch := framework, "make trainers"
		if framework == "hf" {
			packages, fetch = "PyTorch 2 with transformers, peft and datasets", "make hf"
		}
		t.Skipf("%s: not here: %s fetches it", packages, fetch)
	}
	return python
}

// trainer returns the Python with the packages of a framework, which make trainers or make hf
// fetches; "" if it is not here.
func trainer(t *testing.T, framework string) string {
	t.Helper()
	python := must.Get(filepath.Abs("../.venv-" + framework + "/bin/python"))(t)
	packages := framework
	if framework == "hf" {
		packages = "torch.func, transformers, peft, datasets"
	}
	if exec.Command(python, "-c", "import "+packages).Run() != nil {
		return ""
	}
	return python
}

// TestPythonPackageHasTheVersion: the package and the command are released together.
func TestPythonPackageHasTheVersion(t *testing.T) {
	content := must.Get(os.ReadFile("../python/minsep/_version.py"))(t)
	if want := "VERSION = \"" + manifest.Version + "\"\n"; !strings.Contains(string(content), want) {
		t.Errorf("python/minsep/_version.py has not %s", want)
	}
}

// pythonDocuments are the pages with the programs that TestPythonDocument runs, in this order.
var pythonDocuments = []string{"docs/tutorial.md", "docs/python.md", "python/README.md", "docs/large-models.md"}

// TestPythonDocument types the blocks of the tutorial, docs/python.md, the package's README and
// docs/large-models.md, with the package as a wheel. It runs the programs of python/examples where a
// page links to them.
func TestPythonDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command and a wheel: not with -short")
	}
	python := pythonWith(t, "numpy, pyarrow.parquet")
	bin := buildCommand(t)
	dir := newClone(t, bin)
	env := []string{"HOME=" + dir, "XDG_CONFIG_HOME=" + filepath.Join(dir, "out", "config"), "PYTHONPATH=" + newWheel(t, python), "MINSEP_COMMAND=" + bin}
	env = append(env, "RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=127.0.0.1", "MASTER_PORT="+freePort(t)) // of torch.distributed
	ran := 0
	for _, file := range pythonDocuments {
		for _, b := range blocks(t, "../"+file) {
			at := fmt.Sprintf("%s:%d", file, b.line)
			switch {
			case b.language == "" && strings.Contains(b.text, "pip install"): // done above
			case b.language == "":
				runShell(t, at, dir, b.text)
			case b.language == "python":
				ran++
				t.Run(at, func(t *testing.T) {
					python := python
					if framework := imports(b.text); framework != "" {
						python = needTrainer(t, framework)
					}
					if err := runProgram(at, dir, python, b.text, env...); err != nil {
						t.Error(err)
					}
				})
			default:
				t.Errorf("%s: a block in %q: nothing runs it", at, b.language)
			}
		}
	}
	if ran < 5 {
		t.Errorf("%d blocks of Python were run", ran)
	}
	ignored(t, dir)
}

// TestEveryExampleIsRun: the pages that TestPythonDocument reads link to every program in
// python/examples, once, so that it is run.
func TestEveryExampleIsRun(t *testing.T) {
	linked := map[string]int{}
	for _, file := range pythonDocuments {
		page := must.Get(os.ReadFile("../" + file))(t)
		for _, m := range exampleLink.FindAllStringSubmatch(string(page), -1) {
			linked[m[1]]++
		}
	}
	files, err := filepath.Glob("../python/examples/*.py")
	if err != nil || len(files) == 0 {
		t.Fatalf("%d programs: %v", len(files), err)
	}
	for _, file := range files {
		if name := strings.TrimPrefix(filepath.ToSlash(file), "../"); linked[name] != 1 {
			t.Errorf("the pages %q have %d links to %s, want one", pythonDocuments, linked[name], name)
		}
	}
}

// freePort is a port of this machine that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer l.Close()
	_, port, err := net.SplitHostPort(l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	return port
}

// inNoiseDocument follows the reader of noise in docs/background/readers.md, and holds it against
// the package's.
const inNoiseDocument = `
import minsep
run = minsep.Run("run-noise")
for step in 0, 999:
    assert np.array_equal(noise(step), run.noise(step))
`

// TestNoiseDocument types the blocks of docs/noise.md, and runs the reader of noise of docs/background/readers.md.
func TestNoiseDocument(t *testing.T) {
	if testing.Short() {
		t.Skip("builds the command: not with -short")
	}
	python := pythonWith(t, "numpy")
	bin := buildCommand(t)
	dir := newClone(t, bin)
	source := must.Get(filepath.Abs("../python"))(t)
	ran := map[string]int{}
	all := blocks(t, "../docs/noise.md")
	for _, b := range blocks(t, "../docs/background/readers.md") {
		if b.language == "python" && strings.Contains(b.text, "def noise(") {
			all = append(all, b)
		}
	}
	for _, b := range all {
		at := fmt.Sprintf("docs/noise.md or its reader:%d", b.line)
		ran[b.language]++
		switch b.language {
		case "":
			runShell(t, at, dir, b.text)
		case "python":
			if err := runProgram(at, dir, python, b.text+inNoiseDocument, "PYTHONPATH="+source, "PYTHONDONTWRITEBYTECODE=1"); err != nil {
				t.Error(err)
			}
		default:
			t.Errorf("%s: a block in %q: nothing runs it", at, b.language)
		}
	}
	if ran[""] != 3 || ran["python"] != 1 {
		t.Errorf("blocks of each language: %v", ran)
	}
	ignored(t, dir)
}

// imports names the framework that a program imports, whose Python runs it; data sets are beside
// JAX, and PyTorch 2 is beside transformers.
func imports(program string) string {
	switch {
	case strings.Contains(program, "import jax"), strings.Contains(program, "import datasets"):
		return "jax"
	case strings.Contains(program, "dp.private("), strings.Contains(program, "torch.private("), strings.Contains(program, "minsep.hf"):
		return "hf"
	case strings.Contains(program, "import torch"):
		return "torch"
	}
	return ""
}

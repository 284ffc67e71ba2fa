package integration

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"minsep/internal/must"
)

// maxWheel is how large a wheel may be, in bytes.
const maxWheel = 30_000_000

// madeWheels is the folder to which make wheels has written, once for all tests, what is for this machine.
var madeWheels = sync.OnceValues(func() (dist string, err error) {
	dist = filepath.Join(commandFolder, "dist")
	cmd := exec.Command("make", "--no-print-directory", "-C", "..", "wheels", "DIST="+dist)
	if out, err := cmd.CombinedOutput(); err != nil {
		return "", fmt.Errorf("%s: %w\n%s", cmd, err, out)
	}
	return dist, nil
})

// makeWheels returns the wheel and the source that make wheels writes.
func makeWheels(t *testing.T) (wheel, source string) {
	t.Helper()
	dist := must.Get(madeWheels())(t)
	found := func(pattern string) string {
		names, err := filepath.Glob(filepath.Join(dist, pattern))
		if err != nil || len(names) != 1 {
			t.Fatalf("%s: %q, %v", pattern, names, err)
		}
		return names[0]
	}
	return found("*.whl"), found("*.tar.gz")
}

// TestWheel goes the way of a trainer who has Python and no Go, from make wheels on: the wheel is
// installed into a new virtual environment, whose command makes a plan and runs it, up to a trained
// model and a report. The wheel is as small as promised, says what is in it, and is the same when
// it is built from its source in another folder; so is the source when it is packed again.
func TestWheel(t *testing.T) {
	if testing.Short() {
		t.Skip("builds wheels and trains: not with -short")
	}
	t.Parallel()
	python := pythonWith(t, "hatchling, venv")
	root := must.Get(filepath.Abs(".."))(t)
	wheels := filepath.Join(root, ".venv", "wheels")
	if _, err := os.Stat(wheels); err != nil {
		t.Skip("the wheels of NumPy and pyarrow are not here: make python fetches them")
	}
	wheel, source := makeWheels(t)
	t.Run("contents", func(t *testing.T) { testWheelContents(t, wheel) })
	t.Run("from source", func(t *testing.T) {
		dir := t.TempDir()
		if out, err := exec.Command("tar", "-xzf", source, "-C", dir, "--strip-components=1").CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if out, err := hatchling(python, "wheel", dir, dir); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		same(t, wheel, filepath.Join(dir, filepath.Base(wheel)))
		if out, err := hatchling(python, "sdist", filepath.Join(root, "python"), dir); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		same(t, source, filepath.Join(dir, filepath.Base(source)))
	})

	dir := newClone(t, "/nonexistent") // no command but the wheel's
	venv := filepath.Join(dir, "out", "venv")
	run := func(name string, arguments ...string) string {
		t.Helper()
		cmd := exec.Command(name, arguments...)
		cmd.Dir = dir
		cmd.Env = []string{"HOME=" + dir, "PATH=" + filepath.Join(venv, "bin") + ":/usr/bin:/bin", "LANG=C.UTF-8"}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s: %v\n%s", cmd, err, out)
		}
		return string(out)
	}
	run(python, "-m", "venv", venv)
	run(filepath.Join(venv, "bin", "pip"), "--disable-pip-version-check", "install", "-q", "--no-index", "--find-links", wheels, wheel)
	run("bash", "-c", "! command -v go")
	for _, line := range []string{
		"minsep keygen key",
		"minsep plan --graph edges.csv --max-per-owner 1 --steps 60 --batch-size 512 --epsilon 8 --delta 1e-5 --scheme poisson --coordinates 11 --out plan.json",
		"minsep run plan.json --quiet",
		"minsep report run --quiet",
		"test -s run/report.html",
	} {
		run("bash", "-c", line)
	}
	t.Log(run(filepath.Join(venv, "bin", "python"), filepath.Join(root, "integration", "python", "train.py")))
}

// testWheelContents holds what is in a wheel beside the package.
func testWheelContents(t *testing.T, wheel string) {
	info := must.Get(os.Stat(wheel))(t)
	if t.Logf("%d bytes", info.Size()); info.Size() > maxWheel {
		t.Errorf("%d bytes are more than %d", info.Size(), maxWheel)
	}
	z := must.Get(zip.OpenReader(wheel))(t)
	defer z.Close()
	contents := map[string]string{} // by base name
	for _, f := range z.File {
		r := must.Get(f.Open())(t)
		b := must.Get(io.ReadAll(r))(t)
		contents[filepath.Base(f.Name)] = string(b)
		if strings.HasSuffix(f.Name, ".data/scripts/minsep") && f.Mode().Perm()&0o111 == 0 {
			t.Errorf("%s has mode %v", f.Name, f.Mode())
		}
	}
	license := must.Get(os.ReadFile("../LICENSE"))(t)
	if contents["LICENSE"] != string(license) {
		t.Error("the licence is not that of the project: cp LICENSE python/")
	}
	linked := must.Get(exec.Command("go", "list", "-deps", "-tags=disable_grpc_modules", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}", "minsep/cmd/minsep").Output())(t)
	for _, module := range strings.Fields(string(linked)) {
		if module == "minsep" {
			continue
		}
		for _, name := range []string{"minsep.cdx.json", "NOTICES"} {
			if !strings.Contains(contents[name], module) {
				t.Errorf("%s has nothing of %s", name, module)
			}
		}
	}
}

// hatchling builds the wheel or the archive of the source in a folder.
func hatchling(python, kind, folder, to string, env ...string) (out []byte, err error) {
	cmd := exec.Command(python, "-m", "hatchling", "build", "-t", kind, "-d", to)
	cmd.Dir, cmd.Env = folder, append(os.Environ(), env...)
	return cmd.CombinedOutput()
}

// TestWheelRefused: where there can be no wheel, building says why, and what to do.
func TestWheelRefused(t *testing.T) {
	python := pythonWith(t, "hatchling")
	alone := t.TempDir()
	must.Do(t, os.CopyFS(alone, os.DirFS("../python")))
	for _, c := range []struct{ folder, env, said string }{
		{"../python", "MINSEP_PLATFORM=windows/amd64", "MINSEP_PLATFORM windows/amd64: secrets are kept from others by file modes"},
		{"../python", "MINSEP_PLATFORM=linux/386", "MINSEP_PLATFORM linux/386: wheels are for linux/amd64, "},
		{"../python", "PATH=" + alone, "go: not found: this builds the command and needs Go 1.26"},
		{alone, "MINSEP_PLATFORM=linux/amd64", "has not the source of the command"},
	} {
		out, err := hatchling(python, "wheel", c.folder, t.TempDir(), c.env)
		if err == nil || !strings.Contains(string(out), c.said) || !strings.Contains(string(out), "MINSEP_PLATFORM=none makes a package without the command") {
			t.Errorf("%s in %s: %v\n%s", c.env, c.folder, err, out)
		}
	}
	dist := t.TempDir()
	out, err := hatchling(python, "wheel", alone, dist, "MINSEP_PLATFORM=none")
	if names, _ := filepath.Glob(filepath.Join(dist, "minsep-*-py3-none-any.whl")); err != nil || len(names) != 1 {
		t.Errorf("a package without the command: %q, %v\n%s", names, err, out)
	}
}

// TestWheelsAsMade: the command of a wheel is built as make build does, but without the commit, and
// make knows its platforms.
func TestWheelsAsMade(t *testing.T) {
	makefile := must.Get(os.ReadFile("../Makefile"))(t)
	hook := must.Get(os.ReadFile("../python/hatch_build.py"))(t)
	find := func(of []byte, pattern string) string {
		m := regexp.MustCompile("(?ms)" + pattern).FindSubmatch(of)
		if m == nil {
			t.Fatalf("%s: not found", pattern)
		}
		return string(m[1])
	}
	flags := "[\"build\", \"" + strings.ReplaceAll(strings.ReplaceAll(find(makefile, `^BUILD_FLAGS := (.*?)$`), "'", ""), " -", "\", \"-") + "\"]"
	flags = strings.Replace(flags, "-s\", \"-w", "-s -w", 1)
	flags = strings.TrimSuffix(flags, "]") + ", \"-buildvcs=false\"]" // a wheel does not depend on git
	if want := find(hook, `^BUILD = (.*?)$`); flags != want {
		t.Errorf("make build has %s, hatch_build.py %s", flags, want)
	}
	platforms := regexp.MustCompile(`"(\w+/\w+)"`).FindAllStringSubmatch(find(hook, `^PLATFORMS = \{(.*?)\}`), -1)
	var names []string
	for _, p := range platforms {
		names = append(names, p[1])
	}
	if all := find(makefile, `^ALL_PLATFORMS := (.*?)$`); all != strings.Join(names, " ") {
		t.Errorf("make wheels has %s, hatch_build.py %s", all, names)
	}
}

// TestPythonTypes checks the types of the package, whose users' programs are checked against them.
func TestPythonTypes(t *testing.T) {
	python := pythonWith(t, "mypy")
	cmd := exec.Command(python, "-m", "mypy", "--strict", "--cache-dir", t.TempDir())
	cmd.Dir = "../python"
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

// same requires that two files have the same name and bytes.
func same(t *testing.T, first, second string) {
	t.Helper()
	a := must.Get(os.ReadFile(first))(t)
	b := must.Get(os.ReadFile(second))(t)
	if filepath.Base(first) != filepath.Base(second) || !bytes.Equal(a, b) {
		t.Errorf("%s and %s differ", first, second)
	}
}

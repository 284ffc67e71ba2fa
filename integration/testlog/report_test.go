package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// toy is a module whose tests end in every way there is.
var toy = map[string]string{
	"go.mod":    "module toy\n\ngo 1.26\n",
	"good/g.go": "package good\n",
	"none/n.go": "package none\n",
	"good/g_test.go": `package good
import "testing"
func TestPasses(t *testing.T) { t.Log("said by one that passes") }
func TestPython(t *testing.T) { t.Skip("no Python: it is not installed") }
func TestParts(t *testing.T) { t.Run("far away", func(t *testing.T) { t.SkipNow() }) }
`,
	"bad/b_test.go": `package bad
import "testing"
func TestWrong(t *testing.T) { t.Log("said before"); t.Run("inner", func(t *testing.T) { t.Error("got 1, want 2") }) }
func TestRight(t *testing.T) { t.Log("said by one that passes") }
func TestLong(t *testing.T) { for i := range 1000 { t.Errorf("line %d of many", i) } }
`,
	"broken/b_test.go": "package broken\nvar x int = \"text\"\n",
	"crash/c_test.go": `package crash
import "testing"
func TestCrash(t *testing.T) { var m map[string]int; m["x"] = 1 }
`,
	"exits/e_test.go": `package exits
import ("os"; "testing")
func TestExits(t *testing.T) { println("about to leave"); os.Exit(7) }
`,
}

// said runs the toy's tests in packages and returns what the report prints and logs.
func said(t *testing.T, packages ...string) (out, log string, failed bool) {
	t.Helper()
	dir := t.TempDir()
	for name, text := range toy {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.Command("go", append([]string{"test", "-json"}, packages...)...)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "GOFLAGS=", "GOWORK=off")
	events, err := cmd.Output() // its exit code is that of the tests
	if len(events) == 0 {
		t.Fatal(err)
	}
	var o, l bytes.Buffer
	r := report{out: &o, log: &l, logName: "the.log"}
	if err := r.read(bytes.NewReader(events)); err != nil {
		t.Fatal(err)
	}
	failed = r.end()
	return o.String(), l.String(), failed
}

func TestReport(t *testing.T) {
	out, log, failed := said(t, "./...")
	if !failed {
		t.Error("no failure was seen")
	}
	for _, want := range []string{
		"ok  \ttoy/good\t", "FAIL\ttoy/bad\t", "FAIL\ttoy/broken [build failed]", "FAIL\ttoy/crash\t", "FAIL\ttoy/exits\t",
		"b_test.go:3: got 1, want 2", "said before", "--- FAIL: TestWrong/inner", "line 0 of many", "line 999 of many", "see the.log",
		`cannot use "text"`, "panic: assignment to entry in nil map", "about to leave", "--- TestExits did not end",
		"skipped:\n  toy/good TestPython: no Python: it is not installed\n  toy/good TestParts/far_away: no reason given\n",
		"5 packages, 4 of them failed; ",
	} {
		if !strings.Contains(out, want) {
			t.Errorf("it does not say %q", want)
		}
	}
	for _, not := range []string{"said by one that passes", "toy/none", "line 500 of many", "=== RUN"} {
		if strings.Contains(out, not) {
			t.Errorf("it says %q", not)
		}
	}
	if !strings.Contains(log, "line 500 of many") || !strings.Contains(log, "said by one that passes") {
		t.Error("the log is not whole")
	}
	if t.Failed() {
		t.Log(out)
	}
}

func TestReportOfSuccess(t *testing.T) {
	out, _, failed := said(t, "./good", "./none")
	if failed || !strings.HasSuffix(out, "1 packages, 0 of them failed; 4 tests, 2 of them skipped\n") {
		t.Errorf("failed is %v: %s", failed, out)
	}
	if n := strings.Count(out, "\n"); n != 5 {
		t.Errorf("%d lines: %s", n, out)
	}
}

// A package's line is there when the package has ended, not when all have.
func TestReportAsItGoes(t *testing.T) {
	var out bytes.Buffer
	r := report{out: &out, log: new(bytes.Buffer), output: map[place][]string{}, build: map[string][]string{}}
	r.take(event{Action: "output", Package: "a", Output: "ok  \ta\t0.1s\n"})
	if out.Len() > 0 {
		t.Errorf("too early: %q", &out)
	}
	r.take(event{Action: "pass", Package: "a"})
	if got := out.String(); got != "ok  \ta\t0.1s\n" {
		t.Errorf("it said %q", got)
	}
}

func TestNoEvents(t *testing.T) {
	var out bytes.Buffer
	r := report{out: &out, log: &out}
	if err := r.read(strings.NewReader("go: cannot find main module\n")); err == nil || !strings.Contains(out.String(), "cannot find main module") {
		t.Errorf("%v: %q", err, &out)
	}
	if err := r.read(strings.NewReader(fmt.Sprintln(`{"Action":"start","Package":"a"}`))); err != nil {
		t.Error(err)
	}
}

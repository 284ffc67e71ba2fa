package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"minsep/internal/crash"
	"minsep/internal/stream"
	"minsep/internal/testrun"
)

// beCommand is the variable with which this test binary is the command.
const beCommand = "MINSEP_TEST_IS_COMMAND"

func TestMain(m *testing.M) {
	ownSamples = 20 * time.Millisecond
	if os.Getenv(beCommand) != "" { // started again by a test that kills it
		armed()
		fixedMain()
	}
	testscript.Main(m, map[string]func(){"minsep": fixedMain})
}

// fixedMain is the command with two more flags. --run-id fixes the run id, so that runs can be
// repeated and their bytes be frozen. --exits names the only exit code with which it succeeds.
func fixedMain() {
	if id, ok := takeFlag("--run-id="); ok {
		run, err := stream.ParseRunID(id)
		if err != nil {
			panic(err)
		}
		testrun.Fix(run)
	}
	want, ok := takeFlag("--exits=")
	if !ok {
		main()
	}
	crash.Begin()
	if got := crash.Guard(os.Stderr, run); strconv.Itoa(got) != want {
		os.Exit(max(got, exitFailure))
	}
	os.Exit(exitOK)
}

// takeFlag takes a flag out of the arguments of this process and returns its value.
func takeFlag(flag string) (value string, ok bool) {
	at := slices.IndexFunc(os.Args, func(arg string) bool { return strings.HasPrefix(arg, flag) })
	if at < 0 {
		return "", false
	}
	value = strings.TrimPrefix(os.Args[at], flag)
	os.Args = slices.Delete(os.Args, at, at+1)
	return value, true
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		UpdateScripts:       os.Getenv("UPDATE_SCRIPTS") != "",
		RequireExplicitExec: true,
		ContinueOnError:     true, // all that a change concerns in one run
		Setup: func(e *testscript.Env) error {
			e.Setenv("LONG", strings.Repeat("a", 300))
			e.Setenv("GOGC", "400") // a third of what a short command takes is collection
			frozen, err := filepath.Abs("testdata/frozen")
			e.Setenv("FROZEN", frozen)
			return err
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"exits":    exits,
			"refused":  refused,
			"same":     same,
			"sigma":    sameSigma,
			"cut":      cut,
			"flip":     flip,
			"killwhen": killWhen,
			"digests":  digests,
			"units":    units,
			"schema":   schema,
		},
	})
}

// exits CODE COMMAND [ARG…] runs a command and requires its exit code.
func exits(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: exits CODE COMMAND [ARG…]")
	}
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	if err != nil {
		text := err.Error()
		got = text[strings.LastIndexByte(text, ' ')+1:]
	}
	if got != args[0] {
		ts.Fatalf("exit code %s, want %s (%v)", got, args[0], err)
	}
}

// refused CODE PATTERN COMMAND [ARG…] runs a command, and requires its exit code and that its
// standard error matches the pattern.
func refused(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 3 {
		ts.Fatalf("usage: refused CODE PATTERN COMMAND [ARG…]")
	}
	exits(ts, false, append([]string{args[0]}, args[2:]...))
	stderr := ts.ReadFile("stderr")
	if !regexp.MustCompile(args[1]).MatchString(stderr) {
		ts.Fatalf("no match for %q in %q", args[1], stderr)
	}
}

// sigma A B requires two files of JSON to have the same noise multiplier, to the last bit: a number
// or, in a recipe, hexadecimal.
func sameSigma(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: sigma A B")
	}
	var sigmas [2]float64
	for i, name := range args {
		found := regexp.MustCompile(`"noise_multiplier": "?([^,"\s]+)`).FindStringSubmatch(ts.ReadFile(name))
		if found == nil {
			ts.Fatalf("%s: has no noise multiplier", name)
		}
		sigma, err := strconv.ParseFloat(found[1], 64)
		ts.Check(err)
		sigmas[i] = sigma
	}
	if sigmas[0] != sigmas[1] {
		ts.Fatalf("%s has σ = %v, %s %v", args[0], sigmas[0], args[1], sigmas[1])
	}
}

// same A B requires two files to have the same bytes.
func same(ts *testscript.TestScript, neg bool, args []string) {
	if len(args) != 2 {
		ts.Fatalf("usage: same A B")
	}
	if equal := ts.ReadFile(args[0]) == ts.ReadFile(args[1]); equal == neg {
		ts.Fatalf("%s and %s: equal is %v", args[0], args[1], equal)
	}
}

// cut FILE N keeps the first N bytes of a file, counted from the end if N is negative.
func cut(ts *testscript.TestScript, _ bool, args []string) {
	content := ts.ReadFile(args[0])
	n := atoi(ts, args[1])
	if n < 0 {
		n += len(content)
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(content[:n]), 0o600))
}

// flip FILE N inverts a bit of byte N of a file, counted from the end if N is negative.
func flip(ts *testscript.TestScript, _ bool, args []string) {
	content := []byte(ts.ReadFile(args[0]))
	n := atoi(ts, args[1])
	if n < 0 {
		n += len(content)
	}
	content[n] ^= 1
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), content, 0o600))
}

func atoi(ts *testscript.TestScript, s string) int {
	n, err := strconv.Atoi(s)
	ts.Check(err)
	return n
}

// killwhen GLOB COMMAND [ARG…] starts a command and kills it, with no warning, as soon as a file
// matches the pattern.
func killWhen(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: killwhen GLOB COMMAND [ARG…]")
	}
	program, err := exec.LookPath(args[1])
	ts.Check(err)
	c := exec.Command(program, args[2:]...)
	c.Dir, c.Env = ts.MkAbs("."), append(os.Environ(), "PATH="+ts.Getenv("PATH"))
	if sent, err := killedOnce(scriptT{ts: ts}, c, moment{glob: ts.MkAbs(args[0])}, 0, os.Kill); !sent {
		ts.Fatalf("the command ended by itself: %v", err)
	}
}

// scriptT is a script where a test is asked for.
type scriptT struct {
	testing.TB
	ts *testscript.TestScript
}

func (s scriptT) Helper()           {}
func (s scriptT) Fatal(args ...any) { s.ts.Fatalf("%v", args) }

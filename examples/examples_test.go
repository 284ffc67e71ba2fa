// Package examples_test runs the programs on two runners.
package examples_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"testing"
)

// maxLines is the number of lines of a program, without blank ones and comments.
const maxLines = 60

// programs are those that run a pipeline, with the line that each prints for a step and the number of
// steps.
var programs = map[string]struct {
	line  *regexp.Regexp
	steps int
}{
	"pairs": {regexp.MustCompile(`(?m)^step (\d+): \d+ examples$`), 200},
	"noise": {regexp.MustCompile(`(?m)^step (\d+): noise of coordinates \d+ to \d+$`), 200},
	"join":  {regexp.MustCompile(`(?m)^step (\d+): \d+ entries, the first is the record of \d+$`), 200},
	"law":   {regexp.MustCompile(`(?m)^step (\d+): \d+ examples$`), 30},
}

// goCommand is a go command in this module, which the workspace has no part in, as in a module of yours.
func goCommand(args ...string) *exec.Cmd {
	cmd := exec.Command("go", args...)
	cmd.Env = append(os.Environ(), "GOWORK=off")
	return cmd
}

// build returns a program.
func build(t *testing.T, name string) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), name)
	if out, err := goCommand("build", "-o", program, "./"+name).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return program
}

// certified is what a program says of its certificate.
var certified = regexp.MustCompile(`(?m)^σ = (\d\.\d+) by monte carlo`)

// TestPrograms: the programs run, with a key of the command that a module gets as its tool.
func TestPrograms(t *testing.T) {
	key := filepath.Join(t.TempDir(), "key")
	if out, err := goCommand("tool", "minsep", "keygen", key).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for name, want := range programs {
		t.Run(name, func(t *testing.T) {
			dir, program := t.TempDir(), build(t, name)
			sigma := map[string]bool{}
			for _, runner := range []string{"direct", "prism"} {
				var out, log bytes.Buffer
				cmd := exec.Command(program, "--run", filepath.Join(dir, "run-"+runner), "--key", key, "--runner", runner)
				if name == "law" {
					cmd.Args = append(cmd.Args, "--shared", t.TempDir(), "--file", filepath.Join(dir, "law.json"))
				}
				cmd.Stdout, cmd.Stderr = &out, &log
				if err := cmd.Run(); err != nil {
					t.Fatalf("%s: %v\n%s", runner, err, &log)
				}
				seen := map[int]bool{}
				for _, match := range want.line.FindAllSubmatch(out.Bytes(), -1) {
					step, _ := strconv.Atoi(string(match[1]))
					seen[step] = true
				}
				if len(seen) != want.steps || !seen[0] || !seen[want.steps-1] {
					t.Errorf("%s: %d steps of %d\n%s", runner, len(seen), want.steps, &out)
				}
				if name == "law" {
					if first := regexp.MustCompile(`(?m)^step 0: 0 examples$`); !first.Match(out.Bytes()) {
						t.Errorf("%s: somebody takes part on the first day\n%s", runner, &out)
					}
					sigma[string(certified.Find(out.Bytes()))] = true
				}
			}
			translated(t, program, filepath.Join(dir, "run-dataflow"), key)
			if name == "law" {
				if len(sigma) != 1 || sigma[""] {
					t.Errorf("certificates of two runners: %v", sigma)
				}
				commands(t, dir, key)
				return
			}
			// A run directory serves one training.
			if out, err := exec.Command(program, "--run", filepath.Join(dir, "run-direct"), "--key", key).CombinedOutput(); err == nil || !bytes.Contains(out, []byte("holds a training already")) {
				t.Errorf("again: %v: %s", err, out)
			}
		})
	}
}

// commands has the command plan, certify, form and inspect trainings of the file law.json in dir.
func commands(t *testing.T, dir, key string) {
	t.Helper()
	law := []string{"--law", filepath.Join(dir, "law.json"), "--scheme", "law", "--steps", "30", "--examples", "1000"}
	claim := []string{"--epsilon", "2", "--delta", "1e-2"}
	plan, planned, run := filepath.Join(dir, "plan.json"), filepath.Join(dir, "planned"), filepath.Join(dir, "run")
	for _, c := range []struct {
		says string
		args []string
	}{
		{"law, banded-toeplitz ", slices.Concat([]string{"plan", "--batch-size", "60", "--coordinates", "10", "--all", "--out", plan}, law, claim)},
		{"verified", []string{"run", plan, "--key", key, "--out", planned}},
		{"certified", []string{"inspect", planned}},
		{"scheme", slices.Concat([]string{"form", "--key", key, "--out", run}, law)},
		{"verified", slices.Concat([]string{"account", "--bands", "4", "--samples", "50000", "--out", run}, law, claim)},
		{"certified", []string{"inspect", run}},
	} {
		out, err := goCommand(append([]string{"tool", "minsep"}, c.args...)...).CombinedOutput()
		if err != nil || !bytes.Contains(out, []byte(c.says)) {
			t.Errorf("minsep %q: %v: %s", c.args, err, out)
		}
	}
}

// translated has Beam translate a program's pipeline for Dataflow, without running it: the job has
// the key's name, and not the key.
func translated(t *testing.T, program, run, key string) {
	t.Helper()
	if filepath.Base(program) == "law" {
		return // it takes what workers leave in its folder, and a translated job leaves nothing
	}
	cmd := exec.Command(program, "--run", run, "--key", key, "--runner=dataflow", "--dry_run",
		"--project=p", "--region=r", "--staging_location=gs://bucket/staging")
	job, err := cmd.CombinedOutput()
	if err != nil || !bytes.Contains(job, []byte("minsep.SampleBatches")) {
		t.Errorf("dataflow: %v: %s", err, job)
	}
	secret, err := os.ReadFile(key)
	if err != nil {
		t.Fatal(err)
	}
	for _, form := range []string{string(secret), hex.EncodeToString(secret), base64.StdEncoding.EncodeToString(secret)} {
		if bytes.Contains(job, []byte(form)) {
			t.Error("dataflow: the key is in the job")
		}
	}
}

func TestCertificate(t *testing.T) {
	out, err := exec.Command(build(t, "certificate")).CombinedOutput()
	if err != nil || !certified.Match(out) {
		t.Errorf("%v: %s", err, out)
	}
}

// TestPage: docs/library.md links to each program, and they are as short as it says.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../docs/library.md")
	if err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob("*/main.go")
	if err != nil || len(files) != len(programs)+1 {
		t.Fatalf("programs %q: %v", files, err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := 0
		for line := range bytes.Lines(text) {
			if line = bytes.TrimSpace(line); len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
				lines++
			}
		}
		if lines > maxLines {
			t.Errorf("%s has %d lines: at most %d", file, lines, maxLines)
		}
		if !bytes.Contains(page, []byte("(../examples/"+filepath.ToSlash(file)+")")) {
			t.Errorf("docs/library.md has no link to %s", file)
		}
	}
}

// Package examples_test runs the programs on two runners.
package examples_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"minsep/internal/stream"
)

// maxLines is the number of lines of a program, without blank ones and comments.
const maxLines = 60

// programs have the line that each prints for a step, and the number of steps.
var programs = map[string]*regexp.Regexp{
	"pairs": regexp.MustCompile(`(?m)^step (\d+): \d+ examples$`),
	"noise": regexp.MustCompile(`(?m)^step (\d+): noise of coordinates \d+ to \d+$`),
	"join":  regexp.MustCompile(`(?m)^step (\d+): \d+ entries, the first is the record of \d+$`),
}

const steps = 200

func TestPrograms(t *testing.T) {
	for name, line := range programs {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			program, key := filepath.Join(dir, name), filepath.Join(dir, "key")
			if out, err := exec.Command("go", "build", "-o", program, "./"+name).CombinedOutput(); err != nil {
				t.Fatalf("%v: %s", err, out)
			}
			if err := stream.CreateKeyFile(key); err != nil {
				t.Fatal(err)
			}
			for _, runner := range []string{"direct", "prism"} {
				run := filepath.Join(dir, "run-"+runner)
				var out, log bytes.Buffer
				cmd := exec.Command(program, "--run", run, "--key", key, "--runner", runner)
				cmd.Stdout, cmd.Stderr = &out, &log
				if err := cmd.Run(); err != nil {
					t.Fatalf("%s: %v\n%s", runner, err, &log)
				}
				seen := map[int]bool{}
				for _, match := range line.FindAllSubmatch(out.Bytes(), -1) {
					step, _ := strconv.Atoi(string(match[1]))
					seen[step] = true
				}
				if len(seen) != steps || !seen[0] || !seen[steps-1] {
					t.Errorf("%s: %d steps of %d\n%s", runner, len(seen), steps, &out)
				}
			}
			// A run directory serves one training.
			if out, err := exec.Command(program, "--run", filepath.Join(dir, "run-direct"), "--key", key).CombinedOutput(); err == nil || !bytes.Contains(out, []byte("holds a training already")) {
				t.Errorf("again: %v: %s", err, out)
			}
		})
	}
}

// TestPage: docs/library.md shows the programs as they are, and they are short.
func TestPage(t *testing.T) {
	page, err := os.ReadFile("../docs/library.md")
	if err != nil {
		t.Fatal(err)
	}
	for name := range programs {
		text, err := os.ReadFile(filepath.Join(name, "main.go"))
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
			t.Errorf("%s has %d lines: at most %d", name, lines, maxLines)
		}
		if told := fmt.Sprintf("(../examples/%s/main.go) has %d lines", name, lines); !bytes.Contains(page, []byte(told)) {
			t.Errorf("docs/library.md does not say that [the whole program]%s", told)
		}
		begin, end := bytes.Index(text, []byte("func main() {")), bytes.Index(text, []byte("\n\nfunc must["))
		if !bytes.Contains(page, text[begin:end]) {
			t.Errorf("docs/library.md has another main of %s", name)
		}
	}
}

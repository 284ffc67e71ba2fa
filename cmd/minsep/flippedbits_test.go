package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"minsep/internal/stattest"
	"minsep/internal/stream"
)

const flippedPlan = `{
	"graph": {"paths": ["graph.csv"]}, "bound": {"max_examples_per_owner": 2},
	"scheme": {"scheme": "fixed", "steps": 4, "min_sep": 2, "batch_size": 1},
	"strategy": {"kind": "banded-toeplitz", "bands": 2},
	"privacy": {"epsilon": 2, "delta": 1e-3},
	"noise": {"coordinates": 2},
	"key": "key", "out": "run",
}`

// flippedCommands read a run directory, and write nothing in it. The second one of each pair takes
// turns with those of the others.
var flippedCommands = [][]string{
	{"run", "plan.json", "--dry-run"},
	{"run", "plan.json", "--again", "next", "--dry-run"},
	{"report", "run", "--out", "page.html"},
	{"inspect", "run", "--json", "--show-secret", "--recheck", "1"},
	{"compose", "run", "--times", "2", "--delta", "1e-3"},
	{"form", "--bounded", "run", "--scheme", "poisson", "--steps", "4", "--prob", "0.1", "--key", "key", "--out", "other", "--dry-run"},
	{"account", "--bounded", "run", "--scheme", "fixed", "--steps", "4", "--min-sep", "2", "--batch-size", "1", "--strategy", "run/strategy/strategy.json",
		"--epsilon", "2", "--delta", "1e-3", "--out", "run", "--dry-run"},
	{"noise", "--files", "--strategy", "run/strategy/strategy.json", "--steps", "4", "--coordinates", "2", "--key", "key", "--out", "run", "--dry-run"},
	{"noise", "--stream", "run", "--key", "key"},
	{"loss", "run/strategy/strategy.json"},
}

// TestFlippedBits flips bits of the files of JSON in a run directory, one at a time: no command
// panics, and inspect calls the directory broken. Every bit is flipped where MINSEP_LONG is set,
// and a sample of them without.
func TestFlippedBits(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("TMPDIR", os.TempDir()) // which calls change
	var graph strings.Builder
	graph.WriteString("example_id,owner_id\n")
	for e := range 12 {
		fmt.Fprintf(&graph, "%d,%d\n", e, e/2)
	}
	err := errors.Join(os.WriteFile("graph.csv", []byte(graph.String()), 0o600), os.WriteFile("plan.json", []byte(flippedPlan), 0o600), stream.CreateKeyFile("key"))
	if err != nil {
		t.Fatal(err)
	}
	h := hostile{t: t}
	if code, out := h.call("run", "plan.json", "--quiet"); code != exitOK {
		t.Fatalf("the run: %d\n%s", code, out)
	}
	type bit struct {
		path string
		at   int
	}
	var bits []bit
	files := map[string][]byte{}
	err = filepath.WalkDir("run", func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".json" {
			return err
		}
		files[path], err = os.ReadFile(path)
		for i := range 8 * len(files[path]) {
			bits = append(bits, bit{path, i})
		}
		return err
	})
	if err != nil || len(files) < 8 {
		t.Fatal(len(files), err)
	}
	every := 701 // a prime: all bits of a byte take part, and all commands
	if stattest.Long() {
		every = 1
	}
	n := 0
	for i := 0; i < len(bits); i += every {
		b, args := bits[i], flippedCommands[n%len(flippedCommands)]
		n++
		flipped := slices.Clone(files[b.path])
		flipped[b.at/8] ^= 1 << (b.at % 8)
		if err := os.WriteFile(b.path, flipped, 0o600); err != nil {
			t.Fatal(err)
		}
		name := fmt.Sprintf("%s: bit %d of byte %d", b.path, b.at%8, b.at/8)
		if code, out := h.call("inspect", "run"); code != exitNotVerified || !strings.HasPrefix(out, "BROKEN: ") {
			t.Errorf("%s: inspect ends with %d: %.200s", name, code, out)
		}
		if code, out := h.call(args...); code < 0 || code > exitNotVerified {
			t.Errorf("%s: %v ends with %d: %.500s", name, args, code, out)
		}
		if t.Failed() {
			t.Logf("%s, %v", name, args)
		}
		if err := os.WriteFile(b.path, files[b.path], 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for path, was := range files {
		if is, err := os.ReadFile(path); err != nil || !bytes.Equal(is, was) {
			t.Errorf("%s is not what it was: %v", path, err)
		}
	}
	t.Logf("%d of %d bits flipped", n, len(bits))
}

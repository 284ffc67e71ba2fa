package main

import (
	"bytes"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"minsep/internal/manifest"
	"minsep/internal/must"
)

// What a command logs, at the level that leaves nothing out, names no id, no key and no size that is
// secret.
func TestLogsTellNoSecrets(t *testing.T) {
	for _, runner := range []string{"direct", "prism"} {
		t.Run(runner, func(t *testing.T) { testLogs(t, runner) })
	}
}

func testLogs(t *testing.T, runner string) {
	dir := t.TempDir()
	key := filepath.Join(dir, "key")
	mustRun(t, "keygen", key)
	root := must.Get(os.ReadFile(key))(t)
	var graph, faulty strings.Builder
	for e := range 3000 {
		fmt.Fprintf(&graph, "exampleNAME%d,ownerNAME%d\nexampleNAME%d,ownerNAME%d\n", e, e, e, 3000+e/4)
	}
	fmt.Fprintf(&faulty, "%sexampleNAME1,ownerNAME1,ownerNAME2\n", graph.String())
	for name, text := range map[string]string{"graph.csv": "example_id,owner_id\n" + graph.String(), "faulty.csv": "example_id,owner_id\n" + faulty.String(),
		"plan.json": `{"graph": {"paths": ["graph.csv"]}, "bound": {"max_examples_per_owner": 1},
			"scheme": {"scheme": "b-min-sep", "steps": 64, "min_sep": 4, "batch_size": 20}, "strategy": {"kind": "banded-toeplitz", "bands": 4},
			"privacy": {"epsilon": 2, "delta": 1e-3, "samples": 10000}, "noise": {"coordinates": 1000, "files": true}, "key": "key", "out": "whole"}`} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	var logs bytes.Buffer
	run := func(code int, args string) {
		t.Helper()
		c := command(t, strings.Fields(args+" --log-level debug --runner "+runner)...)
		var stderr bytes.Buffer
		c.Dir, c.Stderr = dir, &stderr
		if got := exitOf(c.Run()); got != code {
			t.Fatalf("%v: exit code %d: %s", args, got, &stderr)
		}
		if stderr.Len() == 0 {
			t.Errorf("%v: no logs", args)
		}
		stderr.WriteTo(&logs)
	}
	form := func(scheme string) {
		t.Helper()
		must.Do(t, os.RemoveAll(filepath.Join(dir, "run", "batches")))
		run(0, "form --bounded run --steps 64 --key key --out run --run-id="+killedRunID+" --scheme "+scheme)
		secret := realized(t, filepath.Join(dir, "run"))
		for _, size := range secret {
			if regexp.MustCompile(`(^|[^0-9.])` + size + `([^0-9.]|$)`).Match(logs.Bytes()) {
				t.Errorf("%s: the logs have the number %s: participations, or the size of a file of batches", scheme, size)
			}
		}
	}
	run(0, "bound --graph graph.csv --max-per-owner 1 --key key --out run --run-id="+killedRunID)
	run(2, "bound --graph faulty.csv --max-per-owner 1 --key key --out other")
	form("b-min-sep --min-sep 4 --batch-size 20")
	form("multi-owner --min-sep 4 --batch-size 20")
	form("fixed --min-sep 4 --batch-size 20")
	form("poisson --prob 0.01 --max-batch-size 12")
	run(0, "run plan.json")
	run(2, "account --scheme b-min-sep --steps 64 --min-sep 4 --batch-size 20 --bounded run --bands 4 --epsilon 2 --delta 1e-3 --out whole")

	if !bytes.Contains(logs.Bytes(), []byte(`from=beam`)) || !bytes.Contains(logs.Bytes(), []byte(`msg=counter name="examples sampled"`)) {
		t.Error("the logs have nothing of Beam's, or no counter")
	}
	layers := decodings(logs.Bytes(), 4)
	for _, s := range append(halves("root key", root), secret{"example id", []byte("exampleNAME")}, secret{"owner id", []byte("ownerNAME")}) {
		if layer := find(layers, s.bytes); layer != nil {
			i := bytes.Index(layer, s.bytes)
			t.Errorf("the logs hold the %s: %q", s.name, layer[max(0, i-100):min(len(layer), max(0, i)+200)])
		}
	}
}

// What Prism says at level debug may hold data, and is dropped.
func TestPrismsDebugIsDropped(t *testing.T) {
	before := slog.Default()
	defer slog.SetDefault(before)
	var logs bytes.Buffer
	op := operation{logLevel: "debug", stderr: &logs}
	must.Do(t, op.makeLog())
	slog.Debug("exampleNAME")
	slog.With("a", 1).WithGroup("g").Debug("exampleNAME")
	slog.Info("from prism")
	op.log.Debug("of our own")
	if s := logs.String(); strings.Contains(s, "NAME") || !strings.Contains(s, "from prism") || !strings.Contains(s, "of our own") {
		t.Errorf("logs: %s", s)
	}
}

// realized are the numbers of participations and the sizes of the files of batches that came out by
// chance, as text.
func realized(t *testing.T, run string) (sizes []string) {
	t.Helper()
	ix := must.Get(manifest.Open(t.Context(), filepath.Join(run, "batches"), manifest.BatchesFormat))(t)
	for _, f := range ix.Files {
		if strings.HasPrefix(f.Name, "rows-") {
			info := must.Get(os.Stat(filepath.Join(run, "batches", f.Name)))(t)
			sizes = append(sizes, fmt.Sprint((info.Size()-128)/4), fmt.Sprint(info.Size()))
		}
	}
	if len(sizes) < 2 {
		t.Fatalf("files of batches: %v", ix.Files)
	}
	return sizes
}

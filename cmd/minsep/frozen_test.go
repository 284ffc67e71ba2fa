package main

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"github.com/rogpeppe/go-internal/testscript"

	"minsep/internal/ledger"
)

// The scripts frozen_*.txtar hold the bytes of a pinned run: a change of one of them makes minsep
// generate other batches or other noise for a run that exists, or refuse its ledger. Where that is
// meant, the version of the format changes too, and UPDATE_SCRIPTS=1 writes the digests anew.

// version is what may differ between the files of two versions.
var version = regexp.MustCompile(`"minsep_version": "[^"]*"`)

// digests OUT PATH… writes to OUT the SHA-256 of each file, and of each file below a folder, with
// its name. The version is left out.
func digests(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: digests OUT PATH…")
	}
	var out bytes.Buffer
	for _, path := range args[1:] {
		ts.Check(filepath.WalkDir(ts.MkAbs(path), func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			content, err := os.ReadFile(name)
			if err != nil {
				return err
			}
			short, err := filepath.Rel(ts.MkAbs("."), name)
			fmt.Fprintf(&out, "%x %s\n", sha256.Sum256(version.ReplaceAll(content, nil)), filepath.ToSlash(short))
			return err
		}))
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), out.Bytes(), 0o600))
}

// units OUT DIR… writes to OUT a line for each unit in the ledger of each run directory: its place,
// and the sum of its values.
func units(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: units OUT DIR…")
	}
	var out bytes.Buffer
	for _, dir := range args[1:] {
		lines := bytes.Lines([]byte(ts.ReadFile(filepath.Join(dir, "ledger", "units.log"))))
		for line := range lines {
			var unit struct {
				Candidate, Trial int
				First, Count     uint64
				Result           ledger.Result
			}
			_, body, _ := bytes.Cut(line, []byte(" "))
			ts.Check(json.Unmarshal(body, &unit))
			sum, err := unit.Result.Total().MarshalText()
			ts.Check(err)
			fmt.Fprintf(&out, "%s: candidate %d, trial %d, samples %d+%d: %s\n",
				dir, unit.Candidate, unit.Trial, unit.First, unit.Count, sum)
		}
	}
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), out.Bytes(), 0o600))
}

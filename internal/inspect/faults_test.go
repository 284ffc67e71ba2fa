package inspect

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/store"
)

// inspected is the report on a run directory.
func inspected(t *testing.T, run string, o Options) Report {
	t.Helper()
	r, err := Directory(t.Context(), run, o)
	if err != nil {
		t.Fatalf("%s: %v", run, err)
	}
	return r
}

// reported is what is found in a run directory, and the JSON that is said of it.
func reported(t *testing.T, run string) ([]Inspection, []byte) {
	t.Helper()
	r := inspected(t, run, Options{})
	report := must.Get(json.Marshal(r))(t)
	return r.Folders, report
}

// TestManyMissingFiles: an index can list any number of files that are not there. Their number is
// said, and the first of them, in every folder.
func TestManyMissingFiles(t *testing.T) {
	const files = 3000
	run := t.TempDir()
	params, digest, err := manifest.Params(map[string]int{})
	must.Do(t, err)
	for folder, format := range map[string]string{
		manifest.BoundedFolder: manifest.BoundedFormat, manifest.StrategyFolder: manifest.StrategyFormat, manifest.BatchesFolder: manifest.BatchesFormat,
		manifest.NoiseFolder: manifest.NoiseFormat,
	} {
		ix := manifest.Index{Format: format, Version: manifest.Version, Params: params, ParamsSHA256: digest}
		for i := range files {
			ix.Files = append(ix.Files, manifest.File{Name: fmt.Sprintf("part-%05d.npy", i), Bytes: 1})
		}
		text := must.Get(json.Marshal(ix))(t)
		dir := filepath.Join(run, folder)
		must.Do(t, os.Mkdir(dir, 0o700))
		must.Do(t, os.WriteFile(filepath.Join(dir, manifest.IndexName), text, 0o600))
	}
	found, report := reported(t, run)
	if most := 100_000; len(report) > most {
		t.Errorf("%d bytes for %d missing files of five folders, want at most %d", len(report), files, most)
	}
	for _, i := range found {
		if i.kind == manifest.RunName {
			continue
		}
		last := i.Checks[len(i.Checks)-1]
		if last.Broken != files || !strings.Contains(last.Rule, "part-00000.npy") || !strings.Contains(last.Rule, fmt.Sprintf("and %d more faults", files-20)) {
			t.Errorf("%s: %+v", i.kind, last)
		}
	}
}

// TestForeignValuesAreCut: a value of any length that somebody wrote into a file does not make the
// report as long; the beginning of the message, which names the file, and its end stay.
func TestForeignValuesAreCut(t *testing.T) {
	run, long := t.TempDir(), strings.Repeat("é", 200_000)
	params, digest, err := manifest.Params(map[string]int{})
	must.Do(t, err)
	text := must.Get(json.Marshal(manifest.Index{Format: long, Version: manifest.Version, Params: params, ParamsSHA256: digest}))(t)
	for _, at := range []string{"", manifest.BatchesFolder, manifest.NoiseFolder} {
		dir := filepath.Join(run, at)
		name, content := manifest.IndexName, text
		if at == "" {
			name, content = manifest.RunName, []byte(`{"format": "`+long+`"}`)
		}
		must.Do(t, os.MkdirAll(dir, 0o700))
		must.Do(t, os.WriteFile(filepath.Join(dir, name), content, 0o600))
	}
	found, report := reported(t, run)
	if most := 10_000; len(report) > most || !utf8.Valid(report) {
		t.Errorf("%d bytes, valid %t, want at most %d", len(report), utf8.Valid(report), most)
	}
	for _, i := range found {
		rule := i.Checks[len(i.Checks)-1].Rule
		if !strings.Contains(rule, "format") || !strings.Contains(rule, " bytes) … ") || !strings.Contains(rule, "this version reads") {
			t.Errorf("%s: %s", i.kind, rule)
		}
	}
	if text := strings.Repeat("a rule\n", 1000); legible(text) != text {
		t.Error("many short lines are changed")
	}
}

// TestBesideACommand: a verdict on a directory that a command holds says so, whatever it is.
func TestBesideACommand(t *testing.T) {
	run := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(run, manifest.RunName), []byte("{"), 0o644))
	const words = "another command holds this directory"
	if _, report := reported(t, run); strings.Contains(string(report), words) {
		t.Errorf("of a directory that nobody holds: %s", report)
	}
	unlock := must.Get(store.LockFolder(run, manifest.LockName, manifest.PublicDir, manifest.PublicFile))(t)
	if _, report := reported(t, run); !strings.Contains(string(report), words) {
		t.Errorf("beside a command: %s", report)
	}
	whole := Report{Contents: Contents{locked: true}}
	if whole.judge(); whole.State != StateNotCertified || !strings.Contains(whole.Verdict, words) {
		t.Errorf("beside a command, without a fault: %s", whole.Verdict)
	}
	unlock()
	if _, report := reported(t, run); strings.Contains(string(report), words) {
		t.Errorf("after it: %s", report)
	}
}

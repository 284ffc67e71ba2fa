package pipelines_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"minsep/internal/manifest"
	"minsep/internal/pipelines"
	"minsep/internal/stream"
	"minsep/sampling"
)

// A certificate of a later version is inspected by the columns that this one knows.
func TestCertificateOfALaterVersion(t *testing.T) {
	dir := t.TempDir()
	key, run := filepath.Join(dir, "key"), filepath.Join(dir, "run")
	if err := stream.CreateKeyFile(key); err != nil {
		t.Fatal(err)
	}
	account := pipelines.Account{Params: sampling.Params{Scheme: "fixed", Steps: 16, MinSep: 4, BatchSize: 2}, Examples: 20, Bands: 2, Epsilon: 2, Delta: 1e-3}
	if _, err := account.Run(t.Context(), pipelines.Options{Out: run, KeyFile: key}); err != nil {
		t.Fatal(err)
	}
	if failed := failedChecks(t, run); failed != nil {
		t.Fatalf("a sound run fails %v", failed)
	}
	file := filepath.Join(run, manifest.CertificateFile)
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	first := regexp.MustCompile(`(?m)^ *"(minor|graph)": .*\n`).ReplaceAll(data, nil) // as minor 0 wrote it
	later := bytes.Replace(regexp.MustCompile(`"minor": \d+,`).ReplaceAll(data, nil), []byte(`"format": 1,`), []byte(`"format": 1, "minor": 99, "weather": "words",`), 1)
	for name, c := range map[string]struct {
		data   []byte
		failed bool
	}{
		"first":                   {first, false},
		"first, with the graph":   {regexp.MustCompile(`"minor": \d+,`).ReplaceAll(data, nil), true},
		"another graph":           {bytes.Replace(data, []byte("is public and fixed"), []byte("may change"), 1), true},
		"later":                   {later, false},
		"later, of another claim": {bytes.Replace(later, []byte(`"epsilon": 2,`), []byte(`"epsilon": 1,`), -1), true},
		"one more newline":        {append(bytes.Clone(data), '\n'), true},
	} {
		if bytes.Equal(c.data, data) || bytes.Equal(c.data, later) && name != "later" {
			t.Fatalf("%s: nothing was changed in\n%s", name, data)
		}
		if err := os.WriteFile(file, c.data, 0o600); err != nil {
			t.Fatal(err)
		}
		if failed := failedChecks(t, run); slices.Contains(failed, "certificate") != c.failed || !c.failed && failed != nil {
			t.Errorf("%s: failed are %v", name, failed)
		}
	}
}

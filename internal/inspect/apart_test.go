package inspect

import (
	"context"
	"encoding/json"
	"io"
	"strings"
	"testing"

	"minsep/internal/manifest"
	"minsep/internal/stream"
)

// formedRun writes a run directory with the index of batches whose rows are given, and returns it.
func formedRun(t *testing.T, id byte, rows string, examples int64, expected float64, owners int64) string {
	t.Helper()
	dir := t.TempDir()
	if err := manifest.WriteRun(dir, manifest.Run{Format: manifest.RunFormat, Version: manifest.Version, RunID: stream.RunID{id}}, nil); err != nil {
		t.Fatal(err)
	}
	stage, err := manifest.Begin(dir+"/"+manifest.BatchesFolder, true)
	if err != nil {
		t.Fatal(err)
	}
	index := manifest.Index{Format: manifest.BatchesFormat, RunID: stream.RunID{id}}
	for name, content := range map[string]string{manifest.RowsName(0, 1): rows, manifest.IndptrName(0, 1): "indptr"} {
		f, err := stage.Write(name, func(w io.Writer) error { _, err := io.WriteString(w, content); return err })
		if err != nil {
			t.Fatal(err)
		}
		index.Files = append(index.Files, f)
	}
	if index.Params, index.ParamsSHA256, err = manifest.Params(struct{}{}); err != nil {
		t.Fatal(err)
	}
	if index.Facts, err = json.Marshal(manifest.BatchesFacts{Examples: examples, Owners: owners, Steps: 100, Shards: 1, ExpectedBatchSize: &expected}); err != nil {
		t.Fatal(err)
	}
	if err := stage.Publish(index); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestSameBatchesAreNotApart: whatever run ids two directories have, unless equal batches prove
// nothing.
func TestSameBatchesAreNotApart(t *testing.T) {
	one := formedRun(t, 1, "rows", 1000, 10, 0)
	for _, c := range []struct {
		name    string
		other   string
		refused bool
	}{
		{"the same batches", formedRun(t, 2, "rows", 1000, 10, 0), true},
		{"other batches", formedRun(t, 3, "others", 1000, 10, 0), false},
		{"batches of everybody", formedRun(t, 4, "rows", 10, 10, 0), false},
		{"batches of all owners", formedRun(t, 5, "rows", 1000, 10, 10), false},
		{"batches of hardly anybody", formedRun(t, 6, "rows", 1000, 1, 0), false},
		{"the same run id", formedRun(t, 1, "others", 1000, 10, 0), true},
	} {
		_, err := Apart(context.Background(), []string{one, c.other}, 2)
		if (err != nil) != c.refused || err != nil && !strings.Contains(err.Error(), "shares the participations of "+one) {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

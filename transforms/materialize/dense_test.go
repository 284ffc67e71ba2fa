package materialize

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"minsep/sampling/ownergraph"
)

// TestRepeatedValue: a value that is stored once can be that of each of many rows. The file is
// refused by its name before they fill a disk; fewer rows are read.
func TestRepeatedValue(t *testing.T) {
	type row struct {
		ID   int64  `parquet:"example_id"`
		Text string `parquet:"text,dict,zstd"`
	}
	const rows, large = 4000, 1 << 20
	var file bytes.Buffer
	w := parquet.NewGenericWriter[row](&file, parquet.SkipPageBounds("text"))
	text := strings.Repeat("a", large)
	for i := range int64(rows) {
		if _, err := w.Write([]row{{i, text}}); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	name := filepath.Join(t.TempDir(), "data.parquet")
	if err := os.WriteFile(name, file.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	source, err := Data{Paths: []string{name}, IDColumn: "example_id", IDs: ownergraph.Int64}.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, every := range []int{1, 40} {
		r, err := openRows(t.Context(), source.Splits[0])
		if err != nil {
			t.Fatal(err)
		}
		var b []byte
		given := 0
		for i := 0; i < rows && err == nil; i += every {
			b, err = r.append(t.Context(), b[:0], i)
			given++
		}
		if every > 1 && err != nil {
			t.Errorf("%d rows of %d bytes: %v", rows/every, large, err)
		}
		if fault, is := errors.AsType[*DataError](err); every == 1 && (!is || fault.File != name) {
			t.Errorf("%d rows of %d bytes in a file of %d: %v after %d", rows, large, file.Len(), err, given)
		}
		if err := r.close(); err != nil {
			t.Error(err)
		}
	}
}

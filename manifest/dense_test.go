package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"minsep/internal/store"
)

// allocated is how many bytes f allocates.
func allocated(f func()) uint64 {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return after.TotalAlloc - before.TotalAlloc
}

// TestManyEntries: a small file of examples can claim millions of entries of one step; no more are
// held than the batch has.
func TestManyEntries(t *testing.T) {
	type entry struct {
		Step int64 `parquet:"step,delta,zstd"`
		Slot int64 `parquet:"slot,delta,zstd"`
		Row  int64 `parquet:"row,delta,zstd"`
	}
	var file bytes.Buffer
	w := parquet.NewGenericWriter[entry](&file)
	rows := make([]entry, 1<<16)
	for n := range int64(32) {
		for i := range rows {
			rows[i].Slot = n<<16 + int64(i)
		}
		if _, err := w.Write(rows); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "materialized")
	s, err := Begin(dir, true, false)
	if err != nil {
		t.Fatal(err)
	}
	written, err := s.Write(MaterializedName(0, 1), func(w io.Writer) error { _, err := w.Write(file.Bytes()); return err })
	if err != nil {
		t.Fatal(err)
	}
	ix := Index{Format: MaterializedFormat, Files: []File{written}}
	if ix.Params, ix.ParamsSHA256, err = Params(MaterializedParams{IDColumn: "id"}); err != nil {
		t.Fatal(err)
	}
	if ix.Facts, err = json.Marshal(MaterializedFacts{Steps: 1, Shards: 1}); err != nil {
		t.Fatal(err)
	}
	if err := s.Publish(ix); err != nil {
		t.Fatal(err)
	}
	m, err := OpenMaterialized(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	r := m.Entries(t.Context())
	took := allocated(func() { _, err = r.Step(0, 5) })
	if !errors.Is(err, ErrInvalid) {
		t.Errorf("2 million entries in a batch of 5: %v", err)
	}
	if took > 16<<20 {
		t.Errorf("%d bytes were allocated for a file of %d", took, file.Len())
	}
	if err := r.Close(); err != nil {
		t.Error(err)
	}
}

// TestLongRunFile: run.json is small, and one that is not is not read.
func TestLongRunFile(t *testing.T) {
	dir := t.TempDir()
	text := fmt.Sprintf(`{"format":%q,"minsep_version":%q}`, RunFormat, strings.Repeat("0", 32<<20))
	if err := os.WriteFile(filepath.Join(dir, RunName), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	took := allocated(func() { _, err = ReadRun(t.Context(), dir) })
	if _, long := errors.AsType[*store.TooLongError](err); !long || took > 1<<20 {
		t.Errorf("%d bytes are allocated for one of %d: %v", took, len(text), err)
	}
}

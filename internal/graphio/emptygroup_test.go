package graphio_test

import (
	"encoding/binary"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"minsep/internal/graphio"
)

// withEmptyGroups returns a Parquet file with a row group without rows before and after the others,
// as Arrow's writer makes it: of the pages only a dictionary is there, or none, and
// data_page_offset is 0.
func withEmptyGroups(t *testing.T, file []byte, dictionary bool) []byte {
	t.Helper()
	size := int(binary.LittleEndian.Uint32(file[len(file)-8:]))
	pages, footer := file[:len(file)-8-size], file[len(file)-8-size:len(file)-8]
	var protocol thrift.CompactProtocol
	var meta format.FileMetaData
	if err := thrift.Unmarshal(&protocol, footer, &meta); err != nil {
		t.Fatal(err)
	}
	empty := meta.RowGroups[0]
	empty.NumRows, empty.TotalByteSize, empty.TotalCompressedSize, empty.FileOffset = 0, 0, 0, 0
	empty.Columns = slices.Clone(empty.Columns)
	for i := range empty.Columns {
		c := &empty.Columns[i]
		c.OffsetIndexOffset, c.OffsetIndexLength, c.ColumnIndexOffset, c.ColumnIndexLength = 0, 0, 0, 0
		m := &c.MetaData
		m.NumValues, m.TotalCompressedSize, m.TotalUncompressedSize, m.DataPageOffset, m.DictionaryPageOffset = 0, 0, 0, 0, 0
		m.Statistics, m.EncodingStats, m.SizeStatistics = format.Statistics{}, nil, format.SizeStatistics{}
		if dictionary {
			m.DictionaryPageOffset, m.TotalCompressedSize, m.TotalUncompressedSize = 4, 14, 14
		}
	}
	meta.RowGroups = slices.Concat([]format.RowGroup{empty}, meta.RowGroups, []format.RowGroup{empty})
	for i := range meta.RowGroups {
		meta.RowGroups[i].Ordinal = int16(i)
	}
	footer, err := thrift.Marshal(&protocol, &meta)
	if err != nil {
		t.Fatal(err)
	}
	out := slices.Concat(pages, footer)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(footer)))
	return append(out, "PAR1"...)
}

// TestEmptyRowGroups reads graphs between row groups without rows, in splits of one group and all.
func TestEmptyRowGroups(t *testing.T) {
	g := graph{false, true, []edge{{"x1", "1"}, {"x1", "2"}, {"x2", "3"}, {"x3", "4"}, {"x4", "5"}}}
	for _, name := range []string{"edges.parquet", "optional.parquet", "list.parquet", "repeated.parquet"} {
		for _, dictionary := range []bool{false, true} {
			path := write(t, t.TempDir(), name, withEmptyGroups(t, formats[name](g), dictionary))
			for _, size := range []int64{1, 0} {
				got, _, _, err := read([]string{path}, graphio.Options{SplitBytes: size})
				if err != nil || !slices.Equal(got, g.edges) {
					t.Errorf("%s, dictionary %v: got %q, %v", name, dictionary, got, err)
				}
			}
		}
	}
}

// TestPyarrowEmptyPart reads what pyarrow writes for a table without rows, beside a part that has
// some.
func TestPyarrowEmptyPart(t *testing.T) {
	dir := t.TempDir()
	python(t, `
import sys, pyarrow as pa, pyarrow.parquet as pq
edges = pa.table({"example_id": pa.array([1, 2]), "owner_id": pa.array(["x1", "x2"])})
pq.write_table(edges[:0], sys.argv[1] + "/part-0.parquet")
pq.write_table(edges, sys.argv[1] + "/part-1.parquet")
pq.write_table(edges[:0], sys.argv[1] + "/part-2.parquet", use_dictionary=False, compression="zstd")
with pq.ParquetWriter(sys.argv[1] + "/part-3.parquet", edges.schema) as w:
    for rows in edges[:0], edges, edges[:0], edges:
        w.write_table(rows)
`, dir)
	got, src, _, err := read([]string{dir}, graphio.Options{})
	want := []edge{{"1", "x1"}, {"2", "x2"}}
	if err != nil || src.Files != 4 || !slices.Equal(got, slices.Concat(want, want, want)) {
		t.Errorf("got %q, %v", got, err)
	}
}

// python runs a script, or skips the test where there is no pyarrow.
func python(t *testing.T, script string, args ...string) {
	t.Helper()
	if err := exec.Command("python3", "-c", "import pyarrow.parquet").Run(); err != nil {
		t.Skip("python3 with pyarrow is not here")
	}
	file := filepath.Join(t.TempDir(), "script.py")
	if err := os.WriteFile(file, []byte(script), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("python3", append([]string{file}, args...)...).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

package graphio_test

import (
	"encoding/binary"
	"fmt"
	"slices"
	"testing"

	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"minsep/internal/must"
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
	must.Do(t, thrift.Unmarshal(&protocol, footer, &meta))
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
	footer = must.Get(thrift.Marshal(&protocol, &meta))(t)
	out := slices.Concat(pages, footer)
	out = binary.LittleEndian.AppendUint32(out, uint32(len(footer)))
	return append(out, "PAR1"...)
}

// TestEmptyRowGroups reads graphs between row groups without rows.
func TestEmptyRowGroups(t *testing.T) {
	g := graph{false, true, []edge{{"x1", "1"}, {"x1", "2"}, {"x2", "3"}, {"x3", "4"}, {"x4", "5"}}}
	for _, name := range []string{"edges.parquet", "optional.parquet", "list.parquet", "repeated.parquet"} {
		for _, dictionary := range []bool{false, true} {
			path := write(t, t.TempDir(), name, withEmptyGroups(t, formats[name](g), dictionary))
			reads(t, fmt.Sprintf("%s, dictionary %v", name, dictionary), path, defaults, g.edges)
		}
	}
}

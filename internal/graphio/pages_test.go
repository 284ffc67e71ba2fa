package graphio_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"minsep/internal/graphio"
	"minsep/internal/must"
)

// rawColumn is a column of Parquet of one page, which is written byte by byte: what its header says
// need not be what it stores.
type rawColumn struct {
	name     string
	kind     format.Type
	width    int32 // of fixed-length bytes
	repeats  format.FieldRepetitionType
	encoding format.Encoding
	v2       bool
	gzip     bool
	claimed  int32  // entries of the page
	reps     []byte // levels
	defs     []byte
	values   []byte // encoded
	dict     []byte // encoded; nil for none
	inDict   int32
}

// runs encodes levels or places in a dictionary in groups of eight, as every writer does. What fills
// up the last group is left out.
func runs(width int, values []uint32) (out []byte) {
	groups := (len(values) + 7) / 8
	out = binary.AppendUvarint(out, uint64(groups)<<1|1)
	packed := make([]byte, groups*width)
	for i, v := range values {
		for b := range width {
			packed[(i*width+b)/8] |= byte(v>>b&1) << ((i*width + b) % 8)
		}
	}
	return append(out, packed...)
}

func levelsOf(max byte, levels []byte) []byte {
	var wide []uint32
	for _, l := range levels {
		wide = append(wide, uint32(l))
	}
	return runs(bits.Len8(max), wide)
}

// pages are the pages of a column, and the offset of the first data page in them.
func (c *rawColumn) pages(t *testing.T) (out []byte, data int) {
	t.Helper()
	add := func(h format.PageHeader, levels, body []byte) {
		h.UncompressedPageSize = int32(len(levels) + len(body))
		if c.gzip {
			var err error
			if body, err = parquet.Gzip.Encode(nil, body); err != nil {
				t.Fatal(err)
			}
		}
		h.CompressedPageSize = int32(len(levels) + len(body))
		header := must.Get(thrift.Marshal(new(thrift.CompactProtocol), h))(t)
		out = slices.Concat(out, header, levels, body)
	}
	if c.dict != nil {
		add(format.PageHeader{Type: format.DictionaryPage,
			DictionaryPageHeader: thrift.New(format.DictionaryPageHeader{NumValues: c.inDict, Encoding: format.Plain})}, nil, c.dict)
		data = len(out)
	}
	if c.v2 {
		add(format.PageHeader{Type: format.DataPageV2, DataPageHeaderV2: thrift.New(format.DataPageHeaderV2{NumValues: c.claimed, NumRows: c.claimed,
			Encoding: c.encoding, DefinitionLevelsByteLength: int32(len(c.defs)), RepetitionLevelsByteLength: int32(len(c.reps)), IsCompressed: thrift.New(c.gzip)})},
			slices.Concat(c.reps, c.defs), c.values)
		return out, data
	}
	var body []byte
	for _, levels := range [][]byte{c.reps, c.defs} {
		if levels != nil {
			body = append(binary.LittleEndian.AppendUint32(body, uint32(len(levels))), levels...)
		}
	}
	add(format.PageHeader{Type: format.DataPage, DataPageHeader: thrift.New(format.DataPageHeader{NumValues: c.claimed, Encoding: c.encoding,
		DefinitionLevelEncoding: format.RLE, RepetitionLevelEncoding: format.RLE})}, nil, append(body, c.values...))
	return out, data
}

// rawFile is a Parquet file of one row group.
func rawFile(t *testing.T, rows int64, columns ...*rawColumn) []byte {
	t.Helper()
	file := []byte("PAR1")
	schema := []format.SchemaElement{{Name: "schema", NumChildren: thrift.New(int32(len(columns)))}}
	group := format.RowGroup{NumRows: rows}
	for _, c := range columns {
		pages, data := c.pages(t)
		m := format.ColumnMetaData{Type: c.kind, Encoding: []format.Encoding{c.encoding, format.RLE}, PathInSchema: []string{c.name},
			NumValues: int64(c.claimed), TotalCompressedSize: int64(len(pages)), TotalUncompressedSize: int64(len(pages)), DataPageOffset: int64(len(file) + data)}
		if c.dict != nil {
			m.DictionaryPageOffset = int64(len(file))
		}
		if c.gzip {
			m.Codec = format.Gzip
		}
		group.Columns = append(group.Columns, format.ColumnChunk{MetaData: m, FileOffset: int64(len(file))})
		group.TotalByteSize += int64(len(pages))
		file = append(file, pages...)
		e := format.SchemaElement{Name: c.name, Type: thrift.New(c.kind), RepetitionType: thrift.New(c.repeats)}
		if c.width > 0 {
			e.TypeLength = thrift.New(c.width)
		}
		schema = append(schema, e)
	}
	footer := must.Get(thrift.Marshal(new(thrift.CompactProtocol), format.FileMetaData{Version: 1, Schema: schema, NumRows: rows, RowGroups: []format.RowGroup{group}}))(t)
	file = append(file, footer...)
	return append(binary.LittleEndian.AppendUint32(file, uint32(len(footer))), "PAR1"...)
}

// inEncoding stores n ids of a kind in an encoding.
func inEncoding(t *testing.T, c *rawColumn, n int) {
	t.Helper()
	var ints []int64
	var small []int32
	var text []byte
	ends := []uint32{0}
	for i := range n {
		ints = append(ints, int64(1000+i*i))
		small = append(small, int32(1000+i*i))
		text = fmt.Appendf(text, "o-%06d", i)
		ends = append(ends, uint32(len(text)))
	}
	encoding := c.encoding
	if encoding == format.RLEDictionary {
		encoding = format.Plain
	}
	e := parquet.LookupEncoding(encoding)
	var err error
	var values []byte
	switch c.kind {
	case format.Int64:
		values, err = e.EncodeInt64(nil, ints)
	case format.Int32:
		values, err = e.EncodeInt32(nil, small)
	case format.ByteArray:
		values, err = e.EncodeByteArray(nil, text, ends)
	default:
		c.width = 8
		values, err = e.EncodeFixedLenByteArray(nil, text, 8)
	}
	must.Do(t, err)
	if c.values = values; c.encoding == format.RLEDictionary {
		c.dict, c.inDict = values, int32(n)
		var places []uint32
		for i := range n {
			places = append(places, uint32(i))
		}
		c.values = append([]byte{7}, runs(7, places)...)
	}
}

// pageEncodings are the encodings of each type of ids.
var pageEncodings = map[format.Type][]format.Encoding{
	format.Int64:             {format.Plain, format.RLEDictionary, format.DeltaBinaryPacked, format.ByteStreamSplit},
	format.Int32:             {format.Plain, format.RLEDictionary, format.DeltaBinaryPacked, format.ByteStreamSplit},
	format.ByteArray:         {format.Plain, format.RLEDictionary, format.DeltaLengthByteArray, format.DeltaByteArray},
	format.FixedLenByteArray: {format.Plain, format.RLEDictionary, format.DeltaByteArray, format.ByteStreamSplit},
}

// TestPagesOfOtherCounts: a page that stores fewer values than its header says, or more, is refused
// with the file, the row group and the column, in every encoding; what is stored whole is read.
// Reading it would give ids that are nobody's, or another column's.
func TestPagesOfOtherCounts(t *testing.T) {
	const stored = 48 // whole groups of eight
	examples := func(n int32) *rawColumn { return column(t, "example_id", n) }
	refused := func(about string, file []byte) {
		t.Helper()
		edges, err := readAll(t, file)
		for _, part := range []string{"g.parquet", "row group 1", "owner_id", "corrupt"} {
			if err == nil || !strings.Contains(err.Error(), part) {
				t.Errorf("%s: %d edges and the error %v, which must say %q", about, edges, err, part)
				return
			}
		}
	}
	for kind, encodings := range pageEncodings {
		for _, encoding := range encodings {
			for _, form := range []struct{ v2, gzip bool }{{false, false}, {true, true}} {
				for _, levels := range []string{"required", "optional", "list"} {
					about := fmt.Sprintf("%v %v %+v %s", kind, encoding, form, levels)
					owners := func(claimed, inPage int32, nulls int) *rawColumn {
						c := &rawColumn{name: "owner_id", kind: kind, encoding: encoding, v2: form.v2, gzip: form.gzip, claimed: claimed}
						inEncoding(t, c, int(inPage))
						defs := bytes.Repeat([]byte{1}, int(claimed))
						clear(defs[:nulls])
						switch levels {
						case "optional":
							c.repeats, c.defs = format.Optional, levelsOf(1, defs)
						case "list":
							c.repeats, c.defs = format.Repeated, levelsOf(1, defs)
							c.reps = levelsOf(1, make([]byte, claimed))
						}
						return c
					}
					if edges, err := readAll(t, rawFile(t, stored, examples(stored), owners(stored, stored, 0))); edges != stored || err != nil {
						t.Errorf("%s: %d edges, %v", about, edges, err)
					}
					refused(about+", 1 missing", rawFile(t, stored+1, examples(stored+1), owners(stored+1, stored, 0)))
					refused(about+", 30 missing", rawFile(t, stored+30, examples(stored+30), owners(stored+30, stored, 0)))
					if encoding != format.RLEDictionary {
						refused(about+", 3 more", rawFile(t, stored-3, examples(stored-3), owners(stored-3, stored, 0)))
					}
					if levels != "required" && encoding != format.RLEDictionary {
						refused(about+", levels of 2 nulls", rawFile(t, stored, examples(stored), owners(stored, stored, 2)))
					}
					if levels != "required" {
						short := owners(stored, stored, 0)
						short.defs = levelsOf(1, bytes.Repeat([]byte{1}, stored-8))
						refused(about+", 8 levels missing", rawFile(t, stored, examples(stored), short))
					}
					whole := len(owners(stored, stored, 0).values)
					for _, left := range []int{0, 1, whole / 2, whole - 1} {
						if encoding == format.DeltaBinaryPacked && left == whole-1 {
							continue // the last small block is filled up, for nothing
						}
						c := owners(stored, stored, 0)
						c.values = c.values[:left]
						refused(fmt.Sprintf("%s, %d of %d bytes", about, left, whole), rawFile(t, stored, examples(stored), c))
					}
					if encoding == format.Plain { // as fastparquet fills up pages
						c := owners(stored, stored, 0)
						c.values = append(c.values, make([]byte, 8)...)
						if edges, err := readAll(t, rawFile(t, stored, examples(stored), c)); edges != stored || err != nil {
							t.Errorf("%s, a page that is filled up: %d edges, %v", about, edges, err)
						}
					}
					if encoding == format.RLEDictionary {
						c := owners(stored, stored, 0)
						c.inDict++
						refused(about+", a short dictionary", rawFile(t, stored, examples(stored), c))
						c = owners(stored, stored, 0)
						c.inDict--
						c.dict = c.dict[:len(c.dict)-len(c.dict)/stored]
						refused(about+", a place beyond the dictionary", rawFile(t, stored, examples(stored), c))
						c = owners(stored-3, stored, 0) // as DuckDB fills up runs
						if edges, err := readAll(t, rawFile(t, stored-3, examples(stored-3), c)); edges != stored-3 || err != nil {
							t.Errorf("%s, a run that is filled up: %d edges, %v", about, edges, err)
						}
						c = owners(stored, stored, 0)
						c.values = slices.Insert(c.values, 1, 0, 0) // after the width: a run of no place
						refused(about+", an empty run", rawFile(t, stored, examples(stored), c))
					}
				}
			}
		}
	}
}

// TestKeyWithoutValue: free metadata need no value.
func TestKeyWithoutValue(t *testing.T) {
	file := rawFile(t, 8, column(t, "example_id", 8), column(t, "owner_id", 8))
	size := int(binary.LittleEndian.Uint32(file[len(file)-8:]))
	pages, footer := file[:len(file)-8-size], file[len(file)-8-size:len(file)-8]
	// A list of one struct with the key "pandas" in place of the end of the footer: field 5 after 4.
	footer = append(footer[:len(footer)-1], "\x19\x1c\x18\x06pandas\x00\x00"...)
	file = slices.Concat(pages, footer, binary.LittleEndian.AppendUint32(nil, uint32(len(footer))), []byte("PAR1"))
	if edges, err := readAll(t, file); edges != 8 || err != nil {
		t.Errorf("%d edges, %v", edges, err)
	}
}

// column is one of n integers.
func column(t *testing.T, name string, n int32) *rawColumn {
	t.Helper()
	c := &rawColumn{name: name, kind: format.Int64, claimed: n}
	inEncoding(t, c, int(n))
	return c
}

// TestNullOwners: an example with null in place of its owner is left out and counted on request, in
// every format, and refused otherwise.
func TestNullOwners(t *testing.T) {
	owners := column(t, "owner_id", 5)
	owners.claimed, owners.repeats, owners.defs = 8, format.Optional, levelsOf(1, []byte{0, 1, 1, 0, 1, 1, 0, 1})
	for name, file := range map[string][]byte{
		"g.parquet": rawFile(t, 8, column(t, "example_id", 8), owners),
		"g.csv":     []byte("example_id,owner_id\n1000,\n1001,1000\n1004,1001\n1009,\n1016,1004\n1025,1009\n1036,\n1049,1016\n"),
	} {
		path := write(t, t.TempDir(), name, file)
		got, _, ownerless, err := read([]string{path}, graphio.Options{SkipOwnerless: true})
		want := []edge{{"1001", "1000"}, {"1004", "1001"}, {"1016", "1004"}, {"1025", "1009"}, {"1049", "1016"}}
		if err != nil || ownerless != 3 || !slices.Equal(got, want) {
			t.Errorf("%s: %q, %d without owners, %v", name, got, ownerless, err)
		}
		if got, _, _, err := read([]string{path}, defaults); err == nil {
			t.Errorf("%s: not asked for: %q", name, got)
		}
	}
}

// readAll counts the edges of a Parquet file.
func readAll(t *testing.T, file []byte) (edges int, err error) {
	t.Helper()
	source, err := graphio.Open(t.Context(), []string{write(t, t.TempDir(), "g.parquet", file)}, defaults)
	if err != nil {
		return 0, err
	}
	return edges, source.Read(t.Context(), func(b *graphio.Batch) error { edges += b.Len(); return nil })
}

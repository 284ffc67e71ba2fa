// Package idcolumn reads columns of ids from Parquet files, page by page, into [ownergraph.IDs].
//
// A file may be damaged or hostile: the sizes that it states are checked before memory is
// allocated for them, and the reader returns [ErrCorrupt] where the library below panics. Ids
// are integers of at most 64 bits, strings in UTF-8 or bytes, both of at most 255 bytes, and neither
// null nor empty; others are a [ValueError].
package idcolumn

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding/thrift"
	"github.com/parquet-go/parquet-go/format"

	"minsep/internal/ownergraph"
	"minsep/internal/stream"
)

// ErrCorrupt is returned for a file that is not as Parquet files are.
var ErrCorrupt = errors.New("the Parquet file is corrupt or truncated")

// ErrLZ4 is returned for columns that are compressed with LZ4: its decoder takes all memory
// when the data are damaged.
var ErrLZ4 = errors.New("LZ4 compression is not read: write the file with zstd, snappy or gzip")

// ValueError is a value that is no id. It does not say which value it is.
type ValueError string

func (e ValueError) Error() string { return string(e) }

// Values that are no ids.
const (
	Null    ValueError = "null"
	Empty   ValueError = "an empty id"
	Long    ValueError = "a string of more than 255 bytes"
	Big     ValueError = "an integer beyond 64 bits"
	NotUTF8 ValueError = "text that is not UTF-8"
)

// File is an open Parquet file.
type File struct {
	*parquet.File
	r io.ReaderAt
}

// Open reads the footer of a file of size bytes.
func Open(r io.ReaderAt, size int64) (f *File, err error) {
	defer guard(&err)
	var tail [8]byte // the footer's length and the magic: the library allocates that length
	if size < 12 {
		return nil, ErrCorrupt
	}
	if _, err := r.ReadAt(tail[:], size-8); err != nil && err != io.EOF {
		return nil, err
	}
	length := int64(binary.LittleEndian.Uint32(tail[:]))
	if length > size-12 {
		return nil, ErrCorrupt
	}
	plain, err := withoutKeys(r, size-8-length, length)
	if err != nil {
		return nil, err
	}
	file, err := parquet.OpenFile(
		plain,
		plain.size(),
		parquet.SkipPageIndex(true),
		parquet.SkipBloomFilters(true),
		parquet.ReadBufferSize(1<<16),
	)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	return &File{file, r}, nil
}

// footer is what is needed of a [format.FileMetaData]. The library refuses keys of free metadata
// that have no value, which the format allows.
type footer struct {
	Version   int32                  `thrift:"1,required"`
	Schema    []format.SchemaElement `thrift:"2,required"`
	NumRows   int64                  `thrift:"3,required"`
	RowGroups []format.RowGroup      `thrift:"4,required"`
}

// withoutKeys returns the file with a footer that has no free metadata. The footer of the file
// begins at start and is length bytes long.
func withoutKeys(r io.ReaderAt, start, length int64) (*refooted, error) {
	b := make([]byte, length)
	if n, err := r.ReadAt(b, start); n < len(b) && err != io.EOF {
		return nil, err
	}
	var protocol thrift.CompactProtocol
	var f footer
	if err := thrift.Unmarshal(&protocol, b, &f); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	b, err := thrift.Marshal(&protocol, f)
	if err != nil {
		return nil, err
	}
	b = binary.LittleEndian.AppendUint32(b, uint32(len(b)))
	return &refooted{r, start, append(b, "PAR1"...)}, nil
}

// refooted is a file with another end from start on.
type refooted struct {
	io.ReaderAt
	start int64
	end   []byte
}

func (f *refooted) size() int64 { return f.start + int64(len(f.end)) }

func (f *refooted) ReadAt(b []byte, at int64) (n int, err error) {
	if at < f.start {
		n, err = f.ReaderAt.ReadAt(b[:min(int64(len(b)), f.start-at)], at)
		if n == len(b) || err != nil {
			return n, err
		}
	}
	more, err := bytes.NewReader(f.end).ReadAt(b[n:], at+int64(n)-f.start)
	return n + more, err
}

// guard turns a panic of the library, or an index out of the range of a damaged page, into
// ErrCorrupt.
func guard(err *error) {
	if recover() != nil {
		*err = ErrCorrupt
	}
}

// Column is a column of ids, or of lists of ids.
type Column struct {
	Name string            // as the schema has it
	Type ownergraph.IDType // of its ids
	List bool              // whether each entry is a list of ids
	// Divided says that strings hold several ids, so that they may be of any length. The caller may set
	// it.
	Divided  bool
	leaf     int // its index among the leaves
	physical parquet.Kind
	width    int // of fixed-length bytes
	unsigned bool
	uuid     bool
	maxRep   byte // repetition level of a second value
	maxDef   byte // definition level of a value
	entryDef byte // and of an entry of a list, null or not
}

// Top returns the top-level columns.
func (f *File) Top() []*parquet.Column { return f.Root().Columns() }

// Column understands a top-level column: a flat one, a repeated one, and a list as Parquet's
// logical type LIST makes it. The error describes any other column.
func (f *File) Column(top *parquet.Column) (c *Column, err error) {
	defer guard(&err)
	c = &Column{Name: top.Name()}
	leaf := top
	for def := byte(0); ; {
		if leaf.Repeated() {
			if c.List {
				return nil, errors.New("a list of lists")
			}
			c.List, c.entryDef = true, def+1
		}
		if !leaf.Required() {
			def++
		}
		if leaf.Leaf() {
			break
		}
		if len(leaf.Columns()) != 1 || !leaf.Repeated() && !leaf.Columns()[0].Repeated() {
			return nil, errors.New("a group of columns")
		}
		leaf = leaf.Columns()[0]
	}
	c.leaf, c.physical = leaf.Index(), leaf.Type().Kind()
	c.maxRep, c.maxDef = byte(leaf.MaxRepetitionLevel()), byte(leaf.MaxDefinitionLevel())
	if c.physical == parquet.FixedLenByteArray {
		c.width = leaf.Type().Length()
		if logical := leaf.Type().LogicalType(); logical != nil {
			_, c.uuid = logical.Value.(*format.UUIDType)
		}
	}
	var ok bool
	if c.Type, c.unsigned, ok = idTypeOf(leaf.Type()); !ok {
		return nil, fmt.Errorf("type %v", leaf.Type())
	}
	if f.hasHalfFloats(c) {
		return nil, errors.New("type FLOAT16")
	}
	return c, nil
}

// idTypeOf says which ids a Parquet type holds. Dates, decimals and the like are none.
func idTypeOf(t parquet.Type) (id ownergraph.IDType, unsigned, ok bool) {
	var logical any
	if l := t.LogicalType(); l != nil {
		logical = l.Value
	}
	plain := logical == nil && t.ConvertedType() == nil
	switch t.Kind() {
	case parquet.Int32, parquet.Int64:
		if i, is := logical.(*format.IntType); is {
			return ownergraph.Int64, !i.IsSigned, true
		}
		return ownergraph.Int64, false, plain
	case parquet.ByteArray:
		switch logical.(type) {
		case *format.StringType, *format.EnumType, *format.JsonType:
			return ownergraph.String, false, true
		}
		return ownergraph.Bytes, false, plain
	case parquet.FixedLenByteArray:
		if _, uuid := logical.(*format.UUIDType); uuid {
			return ownergraph.String, false, true
		}
		return ownergraph.Bytes, false, plain && t.Length() <= stream.MaxStringID
	}
	return 0, false, false
}

// hasHalfFloats says that a column holds half floats. The library leaves out their type as it
// reads: their two bytes are no id, since 0 and -0 differ in them.
func (f *File) hasHalfFloats(c *Column) bool {
	leaf := 0
	for i, e := range f.Metadata().Schema {
		if i == 0 || e.NumChildren.Valid && e.NumChildren.V > 0 {
			continue
		}
		if leaf == c.leaf {
			_, half := e.LogicalType.Value.(*format.Float16Type)
			return half
		}
		leaf++
	}
	return false
}

// Groups returns the number of row groups.
func (f *File) Groups() int { return len(f.Metadata().RowGroups) }

// GroupRows returns the number of rows of a row group.
func (f *File) GroupRows(group int) int64 { return f.Metadata().RowGroups[group].NumRows }

// MostValues is how many values, at most, a row has of any of the columns, over all rows: as the
// footer says, which the pages are held against.
func (f *File) MostValues(columns []*Column) (most int64) {
	for _, c := range columns {
		sum := int64(0)
		for _, rg := range f.Metadata().RowGroups {
			if c.leaf < len(rg.Columns) {
				sum += min(max(0, rg.Columns[c.leaf].MetaData.NumValues), math.MaxInt64-sum)
			}
		}
		most = max(most, sum)
	}
	return most
}

// Check compares the footer's entry for a column in a row group with the column and the file,
// and returns its size in the file. A row group without rows has no pages, whatever offset its
// footer gives: Arrow writes 0 there.
func (f *File) Check(c *Column, group int) (bytes int64, err error) {
	rg := &f.Metadata().RowGroups[group]
	if c.leaf >= len(rg.Columns) {
		return 0, ErrCorrupt
	}
	m := &rg.Columns[c.leaf].MetaData
	if isEmpty(rg, c) {
		return 0, nil
	}
	if m.Codec == format.Lz4Raw || m.Codec == format.Lz4 {
		return 0, ErrLZ4
	}
	start := chunkStart(m)
	if m.Type != format.Type(c.physical) || start < 4 || m.TotalCompressedSize < 0 || start > f.Size()-m.TotalCompressedSize ||
		m.NumValues < 0 || rg.NumRows < 0 || m.NumValues < rg.NumRows ||
		!c.List && m.NumValues > rg.NumRows {
		return 0, ErrCorrupt
	}
	return m.TotalCompressedSize, nil
}

// isEmpty says whether a row group has no row and the column no value in it.
func isEmpty(rg *format.RowGroup, c *Column) bool {
	return rg.NumRows == 0 && rg.Columns[c.leaf].MetaData.NumValues == 0
}

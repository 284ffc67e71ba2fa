// Package idcolumn reads columns of ids from Parquet files, page by page, into [ownergraph.IDs].
//
// A file may be damaged or hostile: the sizes that it states are checked before memory is
// allocated for them, and the reader returns [ErrCorrupt] where the library below panics. Ids
// are integers of at most 64 bits, strings in UTF-8 or bytes, both of at most 255 bytes, and neither
// null nor empty; others are a [ValueError].
package idcolumn

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go/deprecated"
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
	Wide    ValueError = "an integer beyond the type of its column"
	NotUTF8 ValueError = "text that is not UTF-8"
)

// File is an open Parquet file.
type File struct {
	Columns []*Column // the columns at the top level
	NumRows int64

	groups []format.RowGroup
	r      io.ReaderAt
	size   int64
}

// footer is what is needed of a [format.FileMetaData]. The library refuses keys of free metadata
// that have no value, which the format allows.
type footer struct {
	Version   int32                  `thrift:"1,required"`
	Schema    []format.SchemaElement `thrift:"2,required"`
	NumRows   int64                  `thrift:"3,required"`
	RowGroups []format.RowGroup      `thrift:"4,required"`
}

// Open reads the footer of a file of size bytes.
func Open(r io.ReaderAt, size int64) (f *File, err error) {
	defer guard(&err)
	const magic = "PAR1"
	var head, tail [8]byte // the tail has the footer's length
	if size < 12 {
		return nil, ErrCorrupt
	}
	if _, err := r.ReadAt(head[:], 0); err != nil && err != io.EOF {
		return nil, err
	}
	if _, err := r.ReadAt(tail[:], size-8); err != nil && err != io.EOF {
		return nil, err
	}
	length := int64(binary.LittleEndian.Uint32(tail[:]))
	if string(head[:4]) != magic || string(tail[4:]) != magic || length > size-12 {
		return nil, ErrCorrupt
	}
	b := make([]byte, length)
	if n, err := r.ReadAt(b, size-8-length); n < len(b) && err != io.EOF {
		return nil, err
	}
	var of footer
	if err := thrift.Unmarshal(new(thrift.CompactProtocol), b, &of); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrCorrupt, err)
	}
	f = &File{NumRows: of.NumRows, groups: of.RowGroups, r: r, size: size}
	if f.Columns, err = columnsOf(of.Schema); err != nil {
		return nil, err
	}
	for _, g := range f.groups {
		for _, c := range g.Columns {
			if c.FilePath != "" {
				return nil, errors.New("a Parquet file with columns in other files")
			}
		}
	}
	return f, nil
}

// guard turns a panic of the library, or an index out of the range of a damaged page, into
// ErrCorrupt.
func guard(err *error) {
	if recover() != nil {
		*err = ErrCorrupt
	}
}

// Column is a column at the top level: of ids, or of lists of ids, if Err is nil.
type Column struct {
	Name string            // as the schema has it
	Type ownergraph.IDType // of its ids
	List bool              // whether each entry is a list of ids
	Err  error             // why the column has no ids
	// Divided says that strings hold several ids, so that they may be of any length. The caller may set
	// it.
	Divided  bool
	leaf     int // its index among the leaves
	physical format.Type
	width    int // of fixed-length bytes
	bits     int // of integers, by their logical type
	unsigned bool
	uuid     bool
	maxRep   byte // repetition level of a second value
	maxDef   byte // definition level of a value
	entryDef byte // and of an entry of a list, null or not
}

// columnsOf returns the columns at the top level of a schema, which lists each element before its
// children.
func columnsOf(schema []format.SchemaElement) (columns []*Column, err error) {
	if len(schema) == 0 {
		return nil, ErrCorrupt
	}
	at, leaf := 1, 0
	for range schema[0].NumChildren.V {
		start := at
		c := &Column{leaf: leaf}
		for pending := 1; pending > 0; at++ {
			if at == len(schema) || schema[at].NumChildren.V < 0 {
				return nil, ErrCorrupt
			}
			pending += int(schema[at].NumChildren.V) - 1
			if schema[at].Type.Valid {
				leaf++
			}
		}
		c.Name, c.Err = schema[start].Name, c.understand(schema[start:at])
		columns = append(columns, c)
	}
	if at != len(schema) {
		return nil, ErrCorrupt
	}
	return columns, nil
}

// understand sets what a column is: a flat one, a repeated one, and a list as Parquet's logical type
// LIST makes it. The error describes any other column.
func (c *Column) understand(elements []format.SchemaElement) error {
	repeated := func(i int) bool { return elements[i].RepetitionType.V == format.Repeated }
	for i := range elements {
		if repeated(i) {
			if c.List {
				return errors.New("a list of lists")
			}
			c.List, c.maxRep, c.entryDef = true, 1, c.maxDef+1
		}
		if elements[i].RepetitionType.V != format.Required {
			c.maxDef++
		}
		if i+1 < len(elements) && (elements[i].NumChildren.V != 1 || !repeated(i) && !repeated(i+1)) {
			return errors.New("a group of columns")
		}
	}
	leaf := &elements[len(elements)-1]
	if !leaf.Type.Valid {
		return errors.New("a group of columns")
	}
	c.physical = leaf.Type.V
	if c.physical == format.FixedLenByteArray {
		c.width = int(leaf.TypeLength.V)
		_, c.uuid = leaf.LogicalType.Value.(*format.UUIDType)
	}
	if !c.setType(leaf) {
		return fmt.Errorf("type %s", typeName(leaf))
	}
	return nil
}

// typeName returns the type of an element for messages.
func typeName(e *format.SchemaElement) string {
	if e.LogicalType.Value != nil {
		return e.LogicalType.String()
	}
	return e.Type.V.String()
}

// setType sets which ids an element holds, and reports whether it holds any. Dates, decimals and the
// like are none. Older writers write a converted type in place of a logical one.
func (c *Column) setType(e *format.SchemaElement) bool {
	logical, converted := e.LogicalType.Value, e.ConvertedType.V
	older := logical == nil && e.ConvertedType.Valid
	plain := logical == nil && !older
	switch e.Type.V {
	case format.Int32, format.Int64:
		stored := 32
		if e.Type.V == format.Int64 {
			stored = 64
		}
		c.Type, c.bits = ownergraph.Int64, stored
		if i, is := logical.(*format.IntType); is {
			c.bits, c.unsigned = int(i.BitWidth), !i.IsSigned
		} else if older && deprecated.Uint8 <= converted && converted <= deprecated.Int64 {
			c.bits, c.unsigned = 8<<((converted-deprecated.Uint8)%4), converted <= deprecated.Uint64
		} else if !plain {
			return false
		}
		// The format stores all narrow integers in 32 bits.
		return c.bits == stored || stored == 32 && (c.bits == 8 || c.bits == 16)
	case format.ByteArray:
		c.Type = ownergraph.String
		switch logical.(type) {
		case *format.StringType, *format.EnumType, *format.JsonType:
			return true
		}
		if older && (converted == deprecated.UTF8 || converted == deprecated.Enum || converted == deprecated.Json) {
			return true
		}
		c.Type = ownergraph.Bytes
		return plain
	case format.FixedLenByteArray:
		if c.uuid {
			c.Type = ownergraph.String
			return c.width == 16
		}
		c.Type = ownergraph.Bytes
		return plain && c.width > 0 && c.width <= stream.MaxStringID
	}
	return false
}

// Groups returns the number of row groups.
func (f *File) Groups() int { return len(f.groups) }

// GroupRows returns the number of rows of a row group.
func (f *File) GroupRows(group int) int64 { return f.groups[group].NumRows }

// Check compares the footer's entry for a column in a row group with the column and the file,
// and returns its size in the file. A row group without rows has no pages, whatever offset its
// footer gives: Arrow writes 0 there.
func (f *File) Check(c *Column, group int) (bytes int64, err error) {
	rg := &f.groups[group]
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
	if m.Type != c.physical || start < 4 || m.TotalCompressedSize < 0 || start > f.size-m.TotalCompressedSize ||
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

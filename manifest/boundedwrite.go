package manifest

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"minsep/sampling/ownergraph"
)

// BoundedFormat is the format of a folder with a bounded graph: its rows, in part files.
const BoundedFormat = "minsep-bounded/1"

// BoundedPartName is the name of part i of a bounded graph, counted from 0.
func BoundedPartName(part int) string { return fmt.Sprintf("part-%05d.parquet", part) }

// boundedRow is the schema of a part.
type boundedRow[E, O int64 | string] struct {
	Row       int64 `parquet:"row,delta"`
	ExampleID E     `parquet:"example_id"`
	Copies    int32 `parquet:"copies"`
	Owners    []O   `parquet:"owners,list"`
}

func boundedSchema(example, owner ownergraph.IDType) *parquet.Schema {
	var row any
	switch {
	case example == ownergraph.Int64 && owner == ownergraph.Int64:
		row = boundedRow[int64, int64]{}
	case example == ownergraph.Int64:
		row = boundedRow[int64, string]{}
	case owner == ownergraph.Int64:
		row = boundedRow[string, int64]{}
	default:
		row = boundedRow[string, string]{}
	}
	return parquet.NewSchema("bounded", parquet.SchemaOf(row))
}

const (
	boundedGroupRows  = 1 << 17  // rows of a row group
	boundedGroupBytes = 64 << 20 // or bytes of its ids, at which it ends
	boundedPageRows   = 1 << 12  // rows that are written at once: the unit of pages
)

// BoundedWriter writes a part of a bounded graph as Parquet with the columns row (int64),
// example_id (int64 or string), copies (int32) and owners (list of int64 or string). The bytes are
// a function of the rows: it does not matter in which portions they are written.
type BoundedWriter struct {
	w       *parquet.GenericWriter[any]
	columns [4][]parquet.Value // that wait to be written
	text    []byte             // of their strings
	types   [2]ownergraph.IDType
	next    int64 // the row expected, or -1 before the first
	rows    int   // since the last write
	group   int   // rows of the row group
	bytes   int   // of its ids
}

const (
	rowColumn = iota
	exampleColumn
	copiesColumn
	ownersColumn
)

// NewBoundedWriter writes a part to w.
func NewBoundedWriter(w io.Writer, example, owner ownergraph.IDType) *BoundedWriter {
	return &BoundedWriter{
		w: parquet.NewGenericWriter[any](w, boundedSchema(example, owner),
			parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}), parquet.CreatedBy("minsep", Version, ""),
			parquet.KeyValueMetadata("format", BoundedFormat)),
		types: [2]ownergraph.IDType{example, owner},
		next:  -1,
	}
}

// Write adds rows, which must follow those before.
func (b *BoundedWriter) Write(r *ownergraph.Rows) error {
	if r.Examples.Type != b.types[0] || r.Owners.Type != b.types[1] {
		return fmt.Errorf("manifest: rows of %v and %v ids in a table of %v and %v", r.Examples.Type, r.Owners.Type, b.types[0], b.types[1])
	}
	if b.next < 0 {
		b.next = r.First
	}
	if r.First != b.next || r.First < 0 {
		return fmt.Errorf("manifest: rows from %d in place of row %d", r.First, b.next)
	}
	for i := range r.Len() {
		b.append(r, i)
		b.next++
		if b.rows++; b.rows == boundedPageRows || b.bytes >= boundedGroupBytes {
			if err := b.flush(); err != nil {
				return err
			}
		}
	}
	return nil
}

// append adds a row to the values that wait.
func (b *BoundedWriter) append(r *ownergraph.Rows, i int) {
	add := func(column int, v parquet.Value, repetition, definition int) {
		b.columns[column] = append(b.columns[column], v.Level(repetition, definition, column))
	}
	add(rowColumn, parquet.Int64Value(b.next), 0, 0)
	add(exampleColumn, b.id(&r.Examples, i), 0, 0)
	add(copiesColumn, parquet.Int32Value(int32(r.Copies[i])), 0, 0)
	start, end := r.OwnersOf(i)
	for o := start; o < end; o++ {
		add(ownersColumn, b.id(&r.Owners, o), min(o-start, 1), 1)
	}
	if start == end {
		add(ownersColumn, parquet.Value{}, 0, 0)
	}
}

func (b *BoundedWriter) id(ids *ownergraph.IDs, i int) parquet.Value {
	b.bytes += 8
	if ids.Type == ownergraph.Int64 {
		return parquet.Int64Value(ids.Int(i))
	}
	start := len(b.text)
	b.text = append(b.text, ids.Bytes(i)...) // the rows may change before they are written
	b.bytes += len(b.text) - start
	return parquet.ByteArrayValue(b.text[start:])
}

// flush writes the values that wait, and ends the row group when it is full. Without rows there is
// nothing to write, and the library takes the address of the first value.
func (b *BoundedWriter) flush() error {
	if b.rows == 0 {
		return nil
	}
	for c, w := range b.w.ColumnWriters() {
		if _, err := w.WriteRowValues(b.columns[c]); err != nil {
			return fmt.Errorf("manifest: bounded table: %w", err)
		}
		b.columns[c] = b.columns[c][:0]
	}
	b.text = b.text[:0]
	b.group += b.rows
	b.rows = 0
	if b.group < boundedGroupRows && b.bytes < boundedGroupBytes {
		return nil
	}
	return b.endGroup()
}

func (b *BoundedWriter) endGroup() error {
	b.group, b.bytes = 0, 0
	for _, w := range b.w.ColumnWriters() {
		if err := w.Close(); err != nil {
			return fmt.Errorf("manifest: bounded table: %w", err)
		}
	}
	if err := b.w.Flush(); err != nil {
		return fmt.Errorf("manifest: bounded table: %w", err)
	}
	return nil
}

// Close ends the file. It does not close the writer below.
func (b *BoundedWriter) Close() error {
	err := b.flush()
	if err == nil {
		err = b.endGroup()
	}
	return errors.Join(err, b.w.Close())
}

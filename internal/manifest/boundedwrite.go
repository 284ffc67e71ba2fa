package manifest

import (
	"errors"
	"fmt"
	"io"
	"reflect"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress/zstd"

	"minsep/internal/ownergraph"
)

// Formats of a folder with a bounded graph: its rows, in part files. With pools, an owner has at
// most one example in each pool, but may have many in all pools together; a row tells its pools. A
// reader that does not know pools would take all rows for one bounded graph, so this is a separate
// format, which older readers refuse.
const (
	BoundedFormat      = "minsep-bounded/1"
	BoundedPoolsFormat = "minsep-bounded/1.1"
)

// BoundedFormatOf returns the format for a graph with the given bound.
func BoundedFormatOf(b ownergraph.Bound) string {
	if b.Pools > 0 {
		return BoundedPoolsFormat
	}
	return BoundedFormat
}

// BoundedPartName returns the name of part i, counted from 0.
func BoundedPartName(part int) string { return fmt.Sprintf("part-%05d.parquet", part) }

// goTypes are the types of Go for each type of ids.
var goTypes = [...]reflect.Type{
	ownergraph.Int64:  reflect.TypeFor[int64](),
	ownergraph.String: reflect.TypeFor[string](),
	ownergraph.Bytes:  reflect.TypeFor[[]byte](),
}

// boundedSchema is the schema of a part.
func boundedSchema(example, owner ownergraph.IDType, pools bool) *parquet.Schema {
	fields := []reflect.StructField{
		{Name: "Row", Type: reflect.TypeFor[int64](), Tag: `parquet:"row,delta"`},
		{Name: "ExampleID", Type: goTypes[example], Tag: `parquet:"example_id"`},
		{Name: "Copies", Type: reflect.TypeFor[int32](), Tag: `parquet:"copies"`},
		{Name: "Owners", Type: reflect.SliceOf(goTypes[owner]), Tag: `parquet:"owners,list"`},
	}
	if pools {
		fields = append(
			fields,
			reflect.StructField{Name: "Pools", Type: reflect.TypeFor[[]int32](), Tag: `parquet:"pools,list"`},
		)
	}
	return parquet.NewSchema("bounded", parquet.SchemaOf(reflect.New(reflect.StructOf(fields)).Interface()))
}

const (
	boundedGroupRows  = 1 << 17  // rows of a row group
	boundedGroupBytes = 64 << 20 // or bytes of its ids, at which it ends
	boundedPageRows   = 1 << 12  // rows that are written at once: the unit of pages
)

// BoundedWriter writes a part of a bounded graph as Parquet. The columns are row (int64),
// example_id (int64, string or bytes), copies (int32), owners (list of the same) and, with pools,
// pools (list of int32, ascending, from 0). The bytes depend on the rows only, not on how many come
// with each Write.
type BoundedWriter struct {
	w       *parquet.GenericWriter[any]
	columns [5][]parquet.Value // values that wait to be written
	pools   bool               // whether the last column is used
	text    []byte             // bytes of the waiting strings
	types   [2]ownergraph.IDType
	next    int64 // number of the next row; -1 before the first
	rows    int   // rows since the last flush
	group   int   // rows of the row group so far
	bytes   int   // bytes of the row group's ids so far
}

const (
	rowColumn = iota
	exampleColumn
	copiesColumn
	ownersColumn
	poolsColumn
)

// NewBoundedWriter returns a writer of a part, in [BoundedPoolsFormat] with pools, else in
// [BoundedFormat].
func NewBoundedWriter(w io.Writer, example, owner ownergraph.IDType, pools bool) *BoundedWriter {
	format := BoundedFormat
	if pools {
		format = BoundedPoolsFormat
	}
	return &BoundedWriter{
		w: parquet.NewGenericWriter[any](w, boundedSchema(example, owner, pools),
			parquet.Compression(&zstd.Codec{Level: zstd.SpeedFastest}), parquet.CreatedBy("minsep", Version, ""),
			parquet.KeyValueMetadata("format", format)),
		pools: pools,
		types: [2]ownergraph.IDType{example, owner},
		next:  -1,
	}
}

// Write appends rows. They must continue the numbers of the rows before.
func (b *BoundedWriter) Write(r *ownergraph.Rows) error {
	if r.Examples.Type != b.types[0] || r.Owners.Type != b.types[1] {
		return fmt.Errorf(
			"rows of %v and %v ids in a table of %v and %v",
			r.Examples.Type,
			r.Owners.Type,
			b.types[0],
			b.types[1],
		)
	}
	if r.Len() > 0 && (len(r.PoolEnds) > 0) != b.pools {
		return fmt.Errorf("rows with pools %v in a table with pools %v", len(r.PoolEnds) > 0, b.pools)
	}
	if b.next < 0 {
		b.next = r.First
	}
	if r.First != b.next || r.First < 0 {
		return fmt.Errorf("rows from %d in place of row %d", r.First, b.next)
	}
	for i := range r.Len() {
		if b.pools && len(r.PoolsOf(i)) == 0 {
			return fmt.Errorf("row %d is in no pool", b.next)
		}
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

// append adds row i of r to the waiting values.
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
	for j, p := range r.PoolsOf(i) {
		add(poolsColumn, parquet.Int32Value(int32(p)), min(j, 1), 1)
		b.bytes += 4
	}
}

func (b *BoundedWriter) id(ids *ownergraph.IDs, i int) parquet.Value {
	b.bytes += 8
	if ids.Type == ownergraph.Int64 {
		return parquet.Int64Value(ids.Int(i))
	}
	start := len(b.text)
	b.text = append(b.text, ids.Bytes(i)...) // a copy: the caller may change the rows before they are written
	b.bytes += len(b.text) - start
	return parquet.ByteArrayValue(b.text[start:])
}

// flush writes the waiting values, and ends the row group if it is full. It returns at once if
// there are none, since the library takes the address of the first value.
func (b *BoundedWriter) flush() error {
	if b.rows == 0 {
		return nil
	}
	for c, w := range b.w.ColumnWriters() {
		if _, err := w.WriteRowValues(b.columns[c]); err != nil {
			return fmt.Errorf("bounded table: %w", err)
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
			return fmt.Errorf("bounded table: %w", err)
		}
	}
	if err := b.w.Flush(); err != nil {
		return fmt.Errorf("bounded table: %w", err)
	}
	return nil
}

// Close finishes the part. It does not close the underlying writer.
func (b *BoundedWriter) Close() error {
	err := b.flush()
	if err == nil {
		err = b.endGroup()
	}
	return errors.Join(err, b.w.Close())
}

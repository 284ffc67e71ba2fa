package materialize

import (
	"fmt"
	"math"
	"reflect"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/compress"
	"github.com/parquet-go/parquet-go/encoding"
	"github.com/parquet-go/parquet-go/format"
)

// Columns that are added before the columns of the data.
const (
	StepColumn  = "step"  // int32: the step, from 0
	SlotColumn  = "slot"  // int32: the place of the entry in its step, from 0
	RowColumn   = "row"   // int64: the row of the example in the example table, -1 for padding
	OwnerColumn = "owner" // int32: where owners take part, the number of the owner in the step, -1 for padding
)

// added returns the names of the columns that are added to the data's.
func added(owners bool) []string {
	if owners {
		return []string{StepColumn, SlotColumn, RowColumn, OwnerColumn}
	}
	return []string{StepColumn, SlotColumn, RowColumn}
}

// layout is the schema of the files.
type layout struct {
	schema *parquet.Schema
	own    int    // columns that are added
	deeper []byte // by leaf of the data: 1 if it may be null in a file, and may not in the data

	unknown []unknown  // columns of the data
	texts   [][]string // paths of columns of the data with texts or bytes as values

	rest []format.SchemaElement // while it is made: elements of the data that are not in it yet
}

// unknown is a column with a logical type that the library does not know. The library would write
// the least and largest values in another order than the type's, so they are left out.
type unknown struct {
	path    []string
	logical format.LogicalType
}

// equal reports whether two columns have the same place and type.
func (u unknown) equal(v unknown) bool {
	return slices.Equal(u.path, v.path) && reflect.DeepEqual(u.logical, v.logical)
}

// newLayout returns the schema of files of examples with the columns of data, one of the user's
// files.
func newLayout(data *parquet.File, owners, padded bool) layout {
	l := layout{rest: data.Metadata().Schema[1:]} // without the root
	root := node{Node: parquet.Group{}, kind: parquet.Group{}.Type()}
	for _, name := range added(owners) {
		bits := 32
		if name == RowColumn {
			bits = 64
		}
		number := parquet.Int(bits)
		root.fields = append(root.fields, field{node{Node: number, kind: number.Type()}, name})
	}
	l.own = len(root.fields)
	for _, f := range data.Schema().Fields() {
		n := l.asWritten(f, nil)
		n.nullable = padded && f.Required()
		deeper := byte(0)
		if n.nullable {
			deeper = 1
		}
		for range leaves(f) {
			l.deeper = append(l.deeper, deeper)
		}
		root.fields = append(root.fields, field{n, f.Name()})
	}
	l.schema = parquet.NewSchema("examples", root)
	return l
}

// twice returns a name that two columns of the same group have, or "".
func twice(n parquet.Node) string {
	seen := map[string]bool{}
	for _, f := range n.Fields() {
		if seen[f.Name()] {
			return f.Name()
		}
		seen[f.Name()] = true
		if name := twice(f); name != "" {
			return name
		}
	}
	return ""
}

// leaves returns the number of leaves below a node.
func leaves(n parquet.Node) (count int) {
	if n.Leaf() {
		return 1
	}
	for _, f := range n.Fields() {
		count += leaves(f)
	}
	return count
}

// asWritten returns a column of the data as it is written: of the same type, in the encodings of
// the files that are written here. It takes the next element of rest. above has the names of the
// groups that it is in.
func (l *layout) asWritten(f parquet.Field, above []string) node {
	written := node{Node: f, kind: f.Type()}
	path := append(slices.Clip(above), f.Name())
	if logical := l.rest[0].LogicalType; logical.Value != nil && f.Leaf() && f.Type().LogicalType() == nil {
		written.kind = logicalType{f.Type(), &logical}
		l.unknown = append(l.unknown, unknown{slices.Clone(path), logical})
	}
	if f.Leaf() && slices.Contains([]parquet.Kind{parquet.ByteArray, parquet.FixedLenByteArray}, f.Type().Kind()) {
		l.texts = append(l.texts, slices.Clone(path))
	}
	l.rest = l.rest[1:]
	for _, below := range f.Fields() {
		written.fields = append(written.fields, field{l.asWritten(below, path), below.Name()})
	}
	return written
}

// logicalType adds a logical type that the library leaves out when it reads, such as FLOAT16.
type logicalType struct {
	parquet.Type
	logical *format.LogicalType
}

// LogicalType implements [parquet.Type].
func (t logicalType) LogicalType() *format.LogicalType { return t.logical }

// node is a node with fields in an order of its own; [parquet.Group] would sort them by name.
type node struct {
	parquet.Node
	kind     parquet.Type
	fields   []parquet.Field
	nullable bool // whatever it was
}

func (n node) Type() parquet.Type          { return n.kind }
func (n node) Fields() []parquet.Field     { return n.fields }
func (n node) Optional() bool              { return n.nullable || n.Node.Optional() }
func (n node) Required() bool              { return !n.nullable && n.Node.Required() }
func (n node) Compression() compress.Codec { return nil }

func (n node) Encoding() encoding.Encoding {
	if n.Leaf() {
		return &parquet.Plain
	}
	return nil
}

// field is a node with its name.
type field struct {
	node
	name string
}

func (f field) Name() string { return f.name }

// Value is for files that are written from Go values. These files are written by rows.
func (f field) Value(reflect.Value) reflect.Value { panic("materialize: rows have no Go values") }

// entry is a place in a step, with its example.
type entry struct {
	step, slot int32
	row        int64 // of the example table; -1 for padding
	owner      int32 // number in the step; -1 for padding
}

// add appends the row of an entry to dst. values are the example's, or nil for padding.
func (l *layout) add(dst parquet.Row, e entry, values parquet.Row) parquet.Row {
	dst = append(dst, parquet.Int32Value(e.step).Level(0, 0, 0), parquet.Int32Value(e.slot).Level(0, 0, 1), parquet.Int64Value(e.row).Level(0, 0, 2))
	if l.own > 3 {
		dst = append(dst, parquet.Int32Value(e.owner).Level(0, 0, 3))
	}
	if values == nil {
		for leaf := range l.deeper {
			dst = append(dst, parquet.NullValue().Level(0, 0, l.own+leaf))
		}
	}
	for _, v := range values {
		dst = append(dst, v.Level(v.RepetitionLevel(), v.DefinitionLevel()+int(l.deeper[v.Column()]), l.own+v.Column()))
	}
	return dst
}

// check refuses a schema with more columns than the 16 bits of a value's column can number.
func (l *layout) check() error {
	if l.own+len(l.deeper) > math.MaxInt16 {
		return fmt.Errorf("%s: %d columns: at most %d can be written", FaultPrefix, len(l.deeper), math.MaxInt16-l.own)
	}
	return nil
}

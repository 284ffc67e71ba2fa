package graphio

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"minsep/sampling/ownergraph"
	"minsep/sampling/stream"
)

// openParquet reads a footer. The library may panic on a damaged file.
func openParquet(f File) (file *parquet.File, err error) {
	defer recoverCorrupt(&err)
	var tail [8]byte // the footer's length and the magic: the library allocates what it says
	if _, err := f.ReadAt(tail[:], f.Size()-8); err != nil && err != io.EOF {
		return nil, cause(err)
	}
	if int64(binary.LittleEndian.Uint32(tail[:])) > f.Size()-12 {
		return nil, errors.New("the footer is longer than the file")
	}
	return parquet.OpenFile(f, f.Size(), parquet.SkipPageIndex(true), parquet.SkipBloomFilters(true), parquet.ReadBufferSize(1<<16))
}

var errCorrupt = errors.New("the Parquet file is corrupt or truncated")

func recoverCorrupt(err *error) {
	if r := recover(); r != nil {
		*err = errCorrupt
	}
}

// parquet looks at the footer of a Parquet file.
func (in *inspected) parquet(f File, o *Options) *Fault {
	file, err := openParquet(f)
	if err != nil {
		return &Fault{Found: errCorrupt.Error(), Err: err}
	}
	s := &in.split
	examples, fault := findColumn(file, o.exampleNames(), position(o.ExampleColumn))
	if fault != nil {
		return fault
	}
	s.ExampleColumn = examples.name
	columns := []*parquetColumn{examples}
	in.example = idType{true, true, examples.id}
	top := file.Root().Columns()
	if len(top) == 1 && o.OwnerColumn == "" {
		s.SingleOwner = true
	}
	if examples.list {
		return &Fault{Column: examples.name, Found: "a list", Rule: "the example of a row is one id"}
	}
	if !s.SingleOwner {
		owners, fault := findColumn(file, o.ownerNames(), position(o.OwnerColumn))
		if fault != nil {
			return fault
		}
		if owners.name == examples.name {
			return &Fault{Column: owners.name, Found: "examples and owners in one column", Rule: "set --example-column and --owner-column"}
		}
		s.OwnerColumns = []string{owners.name}
		in.owner = idType{true, true, owners.id}
		columns = append(columns, owners)
	}
	in.records = true
	for g, rg := range file.Metadata().RowGroups {
		in.groups = append(in.groups, 0)
		for _, c := range columns {
			if c.leaf >= len(rg.Columns) {
				return &Fault{RowGroup: g + 1, Found: errCorrupt.Error()}
			}
			m := &rg.Columns[c.leaf].MetaData
			start := chunkStart(m)
			if m.Type != format.Type(c.physical) {
				return &Fault{RowGroup: g + 1, Column: c.name, Found: errCorrupt.Error()}
			}
			if start < 4 || m.TotalCompressedSize < 0 || start > f.Size()-m.TotalCompressedSize || m.NumValues < 0 || rg.NumRows < 0 || !c.list && m.NumValues != rg.NumRows {
				return &Fault{RowGroup: g + 1, Column: c.name, Found: errCorrupt.Error()}
			}
			in.groups[g] += m.TotalCompressedSize
		}
	}
	if len(in.groups) == 0 {
		in.records = false
	}
	return nil
}

// parquetColumn is a column of ids in a schema.
type parquetColumn struct {
	name     string
	leaf     int // its index among the leaves
	id       ownergraph.IDType
	physical parquet.Kind
	unsigned bool
	list     bool
	maxDef   byte // definition level of a value
	entryDef byte // and of an entry of the list, null or not
}

// findColumn looks for a top-level column by name or position.
func findColumn(file *parquet.File, names []string, at int) (column *parquetColumn, fault *Fault) {
	defer func() {
		if recover() != nil { // the library, at a damaged schema
			fault = &Fault{Found: errCorrupt.Error()}
		}
	}()
	top := file.Root().Columns()
	var found *parquet.Column
	if at >= 0 {
		if at >= len(top) {
			return nil, &Fault{Column: fmt.Sprintf("column %d", at+1), Found: "the file has " + plural(len(top), "column"), Rule: "set --example-column and --owner-column"}
		}
		found = top[at]
	} else {
		for _, c := range top {
			for _, n := range names {
				if c.Name() != n {
					continue
				}
				if found != nil {
					return nil, &Fault{Column: strings.Join(names, " or "), Found: "more than one such column", Rule: "set --example-column and --owner-column"}
				}
				found = c
			}
		}
	}
	if found == nil {
		return nil, &Fault{Column: strings.Join(names, " or "), Found: "no such column", Rule: "set --example-column and --owner-column"}
	}
	return newParquetColumn(found)
}

const columnRule = "must be integers or strings, or for owners a list of them"

// newParquetColumn understands a flat column, a repeated one and the list of Parquet's logical types.
func newParquetColumn(top *parquet.Column) (*parquetColumn, *Fault) {
	c := &parquetColumn{name: top.Name()}
	leaf := top
	def := 0
	for {
		if leaf.Repeated() {
			if c.list {
				return nil, &Fault{Column: c.name, Found: "a list of lists", Rule: columnRule}
			}
			c.list = true
			c.entryDef = byte(def + 1)
		}
		if !leaf.Required() {
			def++
		}
		if leaf.Leaf() {
			break
		}
		if len(leaf.Columns()) != 1 {
			return nil, &Fault{Column: c.name, Found: "a group of columns", Rule: columnRule}
		}
		leaf = leaf.Columns()[0]
	}
	c.leaf, c.maxDef, c.physical = leaf.Index(), byte(leaf.MaxDefinitionLevel()), leaf.Type().Kind()
	var ok bool
	if c.id, c.unsigned, ok = idTypeOf(leaf.Type()); !ok {
		return nil, &Fault{Column: c.name, Found: fmt.Sprintf("type %v", leaf.Type()), Rule: columnRule}
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
		return ownergraph.String, false, plain
	case parquet.FixedLenByteArray:
		_, uuid := logical.(*format.UUIDType)
		return ownergraph.String, false, (plain || uuid) && t.Length() <= stream.MaxStringID
	}
	return 0, false, false
}

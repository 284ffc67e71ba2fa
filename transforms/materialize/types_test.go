package materialize_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

type withStep struct {
	ID   int64 `parquet:"id"`
	Step int32 `parquet:"step"`
}

type withLabel struct {
	ID float64 `parquet:"id"`
}

type withControl struct {
	Name int32 `parquet:"a\x1b[31m"`
}

// halfNode is of two bytes, which are said to be a number of type FLOAT16 if half.
type halfNode struct {
	parquet.Node
	half bool
}

func (n halfNode) Type() parquet.Type {
	if n.half {
		return halfType{n.Node.Type()}
	}
	return n.Node.Type()
}

type halfType struct{ parquet.Type }

func (halfType) LogicalType() *format.LogicalType {
	return &format.LogicalType{Value: new(format.Float16Type)}
}

// halves writes the examples first to end-1, each with its id as two bytes, in a list as well.
func halves(t *testing.T, half bool, first, end int) string {
	two := halfNode{parquet.Leaf(parquet.FixedLenByteArrayType(2)), half}
	schema := parquet.NewSchema("halves", parquet.Group{"id": parquet.Int(64), "half": two, "list": parquet.List(two)})
	var b bytes.Buffer
	w := parquet.NewWriter(&b, schema)
	for id := first; id < end; id++ {
		number := parquet.FixedLenByteArrayValue([]byte{byte(id), 0})
		_, err := w.WriteRows([]parquet.Row{{number.Level(0, 0, 0), parquet.Int64Value(int64(id)).Level(0, 0, 1), number.Level(0, 1, 2)}})
		must(t, err)
	}
	must(t, w.Close())
	name := filepath.Join(t.TempDir(), "halves.parquet")
	must(t, os.WriteFile(name, b.Bytes(), 0o600))
	return name
}

// TestTypesAreKept: a logical type that the library does not know is that of the file, and there
// are no least and largest values of it, whose order would be another one.
func TestTypesAreKept(t *testing.T) {
	for _, pad := range []int{0, 4} {
		p := &problem{dir: t.TempDir(), n: 10, pad: pad, steps: [][][]int64{{{3}, {7}}}, files: []string{halves(t, true, 0, 10)}}
		p.writeBatches(t, 1, 1, false)
		dir, files, err := p.write(t, how{runner: "direct", shards: 1})
		must(t, err)
		content, err := os.ReadFile(filepath.Join(dir, files[0].Name))
		must(t, err)
		f, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
		must(t, err)
		var found []string
		leaf := 0
		for _, e := range f.Metadata().Schema {
			if !e.Type.Valid {
				continue
			}
			statistics := f.Metadata().RowGroups[0].Columns[leaf].MetaData.Statistics
			if leaf++; e.Name != "half" && e.Name != "element" {
				continue
			}
			found = append(found, fmt.Sprint(e.LogicalType.Value))
			if statistics.MinValue != nil || statistics.MaxValue != nil {
				t.Errorf("%s: has a least and a largest value", e.Name)
			}
		}
		if fmt.Sprint(found) != "[FLOAT16 FLOAT16]" {
			t.Errorf("pad %d: types %v", pad, found)
		}
		for _, e := range withoutNulls(entries(t, dir, files)) {
			want := fmt.Sprint([]byte{byte(e["row"].(int64)), 0})
			if e["id"] != nil && (fmt.Sprint(e["half"]) != want || fmt.Sprint(e["list"]) != "["+want+"]") {
				t.Errorf("entry %v", e)
			}
		}
	}
}

// doubledGroup is a group whose columns a and b are both called a.
type doubledGroup struct{ parquet.Group }

func (g doubledGroup) Fields() (fields []parquet.Field) {
	for _, f := range g.Group.Fields() {
		fields = append(fields, doubledField{f})
	}
	return fields
}

type doubledField struct{ parquet.Field }

func (f doubledField) Name() string { return strings.Replace(f.Field.Name(), "b", "a", 1) }

// doubled writes the examples up to n with two columns of one name.
func doubled(t *testing.T, n int) string {
	schema := parquet.NewSchema("doubled", doubledGroup{parquet.Group{"a": parquet.Int(64), "b": parquet.Int(64), "id": parquet.Int(64)}})
	var b bytes.Buffer
	w := parquet.NewWriter(&b, schema)
	for id := range n {
		number := parquet.Int64Value(int64(id))
		_, err := w.WriteRows([]parquet.Row{{number.Level(0, 0, 0), number.Level(0, 0, 1), number.Level(0, 0, 2)}})
		must(t, err)
	}
	must(t, w.Close())
	name := filepath.Join(t.TempDir(), "doubled.parquet")
	must(t, os.WriteFile(name, b.Bytes(), 0o600))
	return name
}

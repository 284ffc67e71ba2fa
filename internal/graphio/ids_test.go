package graphio_test

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/deprecated"
	"github.com/parquet-go/parquet-go/format"

	"minsep/internal/graphio"
	"minsep/internal/must"
	"minsep/internal/ownergraph"
)

// written are ids as a text file has them, by what the rule for ids says of them unless they were asked
// for by --id-type string: the table of docs/input.md.
var written = map[string][]string{
	integers: {"7", "0", "-7", "9223372036854775807", "-9223372036854775808"},
	"": {
		"ada", "a da", "7a", "a7", "1e", "1e3x", "-", ".",
		"1-2", "1.2.3", "+", "--7", "0x1f", "true", "é", "7e+",
	},
	"an integer beyond 64 bits": {"9223372036854775808", "18446744073709551615", "-9223372036854775809", "123456789012345678901234567890"},
	"leading zeros":             {"007", "00"},
	"with a sign":               {"+7", "-0", "-07"},
	"blanks":                    {" 7", "7 ", " ada", "ada\u00a0", "ada\t"},
	"not a plain integer":       {"7.0", "7.", ".7", "-1.5", "1e3", "1E+3", "1.0e-3"},
}

// integers are the ids that are not refused, and are no strings.
const integers = "integers"

// holders write ids as the owners of example 1, in files whose columns hold strings or text.
var holders = map[string]func(t *testing.T, dir string, ids []string){
	"g.csv": func(t *testing.T, dir string, ids []string) { write(t, dir, "g.csv", ownerText(",", ids)) },
	"g.tsv": func(t *testing.T, dir string, ids []string) { write(t, dir, "g.tsv", ownerText("\t", ids)) },
	"g.csv.gz": func(t *testing.T, dir string, ids []string) {
		write(t, dir, "g.csv.gz", compressions[".gz"](ownerText(",", ids)))
	},
	"gz as csv": func(t *testing.T, dir string, ids []string) {
		write(t, dir, "g.csv", compressions[".gz"](ownerText(",", ids)))
	},
	"g.parquet": func(t *testing.T, dir string, ids []string) { ownerParquet(t, dir, parquet.String(), ids) },
	"dictionary": func(t *testing.T, dir string, ids []string) {
		ownerParquet(t, dir, parquet.Encoded(parquet.String(), &parquet.RLEDictionary), ids)
	},
	"list": func(t *testing.T, dir string, ids []string) {
		ownerParquet(t, dir, parquet.List(parquet.String()), ids)
	},
}

func ownerText(delimiter string, ids []string) []byte {
	b := []byte("example_id" + delimiter + "owner_id\n")
	for _, id := range ids {
		if delimiter == "\t" {
			id = strings.ReplaceAll(id, "\t", "\u00a0")
		}
		b = fmt.Appendf(b, "1%s%s\n", delimiter, id)
	}
	return b
}

// ownerParquet writes example 1 with owners in a column or list.
func ownerParquet(t *testing.T, dir string, owner parquet.Node, ids []string) {
	name := "owner_id"
	if !owner.Leaf() {
		name = "owners"
	}
	var b bytes.Buffer
	schema := parquet.NewSchema("g", parquet.Group{"example_id": parquet.Int(64), name: owner})
	w := parquet.NewWriter(&b, schema)
	max := schema.Columns()
	leaf, _ := schema.Lookup(max[1]...)
	for _, id := range ids {
		row := parquet.Row{parquet.Int64Value(1).Level(0, 0, 0), parquet.ByteArrayValue([]byte(id)).Level(0, leaf.MaxDefinitionLevel, 1)}
		must.Get(w.WriteRows([]parquet.Row{row}))(t)
	}
	must.Do(t, w.Close())
	write(t, dir, "g.parquet", b.Bytes())
}

// TestOneRuleForIDs holds every format against the table: alone, after a string, and asked for as a
// string.
func TestOneRuleForIDs(t *testing.T) {
	for name, hold := range holders {
		typed := !strings.Contains(name, "sv") // a column of strings, whatever the first id is
		for rule, ids := range written {
			isInt := rule == integers
			refused := rule != "" && !isInt
			for _, given := range ids {
				owners := func(o graphio.Options, ids ...string) ([]string, *graphio.Source, error) {
					dir := t.TempDir()
					hold(t, dir, ids)
					got, src, _, err := read([]string{dir}, o)
					var owners []string
					for _, e := range got {
						owners = append(owners, e.owner)
					}
					slices.Sort(owners)
					return owners, src, err
				}
				id := given
				if name == "g.tsv" {
					id = strings.ReplaceAll(id, "\t", "\u00a0")
				}
				got, src, err := owners(defaults, given)
				switch {
				case refused && (err == nil || !strings.Contains(err.Error(), rule) || !strings.Contains(err.Error(), "--id-type string")):
					t.Errorf("%s: %q alone: got %q, %v", name, id, got, err)
				case !refused && (err != nil || !slices.Equal(got, []string{id})):
					t.Errorf("%s: %q alone: got %q, %v", name, id, got, err)
				case !refused && !typed && (src.OwnerType == ownergraph.Int64) != isInt:
					t.Errorf("%s: %q alone is of type %v", name, id, src.OwnerType)
				}
				got, _, err = owners(defaults, "zoe", given)
				if refused != (err != nil) {
					t.Errorf("%s: %q after a string: got %q, %v", name, id, got, err)
				}
				both := []string{"zoe", id}
				slices.Sort(both)
				got, _, err = owners(graphio.Options{IDType: "string"}, "zoe", given)
				if err != nil || !slices.Equal(got, both) {
					t.Errorf("%s: %q asked for as a string: got %q, %v", name, id, got, err)
				}
			}
		}
	}
}

// TestTypesOfParquet: which ids the types of Parquet have.
func TestTypesOfParquet(t *testing.T) {
	i64 := func(v int64) parquet.Value { return parquet.Int64Value(v) }
	flba := func(s string) parquet.Value { return parquet.FixedLenByteArrayValue([]byte(s)) }
	for _, c := range []struct {
		about   string
		node    parquet.Node
		value   parquet.Value
		auto    string // the id, or "" if it is refused
		strings string // the id with --id-type string, or "" if it is refused
	}{
		{"int64", parquet.Int(64), i64(-7), "-7", "-7"},
		{"int8", parquet.Int(8), parquet.Int32Value(-7), "-7", "-7"},
		{"int8 beyond", parquet.Int(8), parquet.Int32Value(128), "", ""},
		{"int16 beyond", parquet.Int(16), parquet.Int32Value(-1<<15 - 1), "", ""},
		{"uint8", parquet.Uint(8), parquet.Int32Value(255), "255", "255"},
		{"uint8 beyond", parquet.Uint(8), parquet.Int32Value(256), "", ""},
		{"uint16 below", parquet.Uint(16), parquet.Int32Value(-1), "", ""},
		{"older uint8 beyond", parquet.Leaf(olderInt{parquet.Int32Type, deprecated.Uint8}), parquet.Int32Value(256), "", ""},
		{"older int16", parquet.Leaf(olderInt{parquet.Int32Type, deprecated.Int16}), parquet.Int32Value(-1 << 15), "-32768", "-32768"},
		{"int32 in 64 bits", parquet.Leaf(olderInt{parquet.Int64Type, deprecated.Int32}), i64(7), "", ""},
		{"uint32", parquet.Uint(32), parquet.Int32Value(-1), "4294967295", "4294967295"},
		{"uint64", parquet.Uint(64), i64(1<<62 + 1), "4611686018427387905", "4611686018427387905"},
		{"uint64 beyond", parquet.Uint(64), i64(-1), "", "18446744073709551615"},
		{"dictionary of integers", parquet.Encoded(parquet.Int(64), &parquet.RLEDictionary), i64(7), "7", "7"},
		{"fraction", parquet.Leaf(parquet.DoubleType), parquet.DoubleValue(7), "", ""},
		{"float", parquet.Leaf(parquet.FloatType), parquet.FloatValue(7), "", ""},
		{"bool", parquet.Leaf(parquet.BooleanType), parquet.BooleanValue(true), "", ""},
		{"decimal", parquet.Decimal(0, 9, parquet.Int64Type), i64(7), "", ""},
		{"decimal of bytes", parquet.Decimal(0, 9, parquet.FixedLenByteArrayType(4)), flba("\x00\x00\x00\x07"), "", ""},
		{"date", parquet.Date(), parquet.Int32Value(7), "", ""},
		{"half float", parquet.Leaf(halfFloat{parquet.FixedLenByteArrayType(2)}), flba("\x00\x3c"), "", ""},
		{"fixed bytes", parquet.Leaf(parquet.FixedLenByteArrayType(3)), flba("007"), "007", "007"},
		{"bytes", parquet.Leaf(parquet.ByteArrayType), parquet.ByteArrayValue([]byte("\xff 7 ")), "\xff 7 ", ""},
		{"bytes of a string", parquet.Leaf(parquet.ByteArrayType), parquet.ByteArrayValue([]byte("007")), "007", "007"},
		{"a string that is not UTF-8", parquet.String(), parquet.ByteArrayValue([]byte("\xff")), "", ""},
		{"uuid", parquet.UUID(), flba("\x55\x0e\x84\x00\xe2\x9b\x41\xd4\xa7\x16\x44\x66\x55\x44\x00\x00"), "550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440000"},
	} {
		var b bytes.Buffer
		w := parquet.NewWriter(&b, parquet.NewSchema("g", parquet.Group{"example_id": parquet.Int(64), "owner_id": c.node}))
		must.Get(w.WriteRows([]parquet.Row{{i64(1).Level(0, 0, 0), c.value.Level(0, 0, 1)}}))(t)
		must.Do(t, w.Close())
		for _, asked := range []bool{false, true} {
			o, want := defaults, c.auto
			if asked {
				o.IDType, want = "string", c.strings
			}
			got, _, _, err := read([]string{write(t, t.TempDir(), "g.parquet", b.Bytes())}, o)
			if want == "" && err == nil || want != "" && (err != nil || len(got) != 1 || got[0].owner != want) {
				t.Errorf("%s, strings %v: got %q, %v; want %q", c.about, asked, got, err, want)
			}
		}
	}
}

// halfFloat is the type FLOAT16, which the library does not write.
type halfFloat struct{ parquet.Type }

func (halfFloat) LogicalType() *format.LogicalType {
	return &format.LogicalType{Value: new(format.Float16Type)}
}

// olderInt is an integer with a converted type, as older writers have it, and no logical one.
type olderInt struct {
	parquet.Type
	converted deprecated.ConvertedType
}

func (olderInt) LogicalType() *format.LogicalType { return nil }

func (t olderInt) ConvertedType() *deprecated.ConvertedType { return &t.converted }

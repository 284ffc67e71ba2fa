package graphio_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
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

// written is an id as a text file has it, and what the rule for ids says of it: the table of
// docs/input.md.
var written = []struct {
	id      string
	refused string // unless it was asked for by --id-type string; "" if it is an id
	isInt   bool
}{
	{"7", "", true}, {"0", "", true}, {"-7", "", true}, {"9223372036854775807", "", true}, {"-9223372036854775808", "", true},
	{"9223372036854775808", "an integer beyond 64 bits", false}, {"18446744073709551615", "an integer beyond 64 bits", false},
	{"-9223372036854775809", "an integer beyond 64 bits", false}, {"123456789012345678901234567890", "an integer beyond 64 bits", false},
	{"007", "leading zeros", false}, {"00", "leading zeros", false}, {"+7", "with a sign", false}, {"-0", "with a sign", false}, {"-07", "with a sign", false},
	{" 7", "blanks", false}, {"7 ", "blanks", false}, {" ada", "blanks", false}, {"ada\u00a0", "blanks", false}, {"ada\t", "blanks", false},
	{"7.0", "not a plain integer", false}, {"7.", "not a plain integer", false}, {".7", "not a plain integer", false}, {"-1.5", "not a plain integer", false},
	{"1e3", "not a plain integer", false}, {"1E+3", "not a plain integer", false}, {"1.0e-3", "not a plain integer", false},
	{"ada", "", false}, {"a da", "", false}, {"7a", "", false}, {"a7", "", false}, {"1e", "", false}, {"1e3x", "", false}, {"-", "", false}, {".", "", false},
	{"1-2", "", false}, {"1.2.3", "", false}, {"+", "", false}, {"--7", "", false}, {"0x1f", "", false}, {"true", "", false}, {"é", "", false}, {"7e+", "", false},
}

// holders write one id as the owner of example 1, in files whose columns hold strings or text.
// first is another id that makes the column one of strings, or "".
var holders = map[string]func(t *testing.T, dir, first, id string){
	"g.csv": func(t *testing.T, dir, first, id string) { write(t, dir, "g.csv", ownerText(",", first, id)) },
	"g.tsv": func(t *testing.T, dir, first, id string) { write(t, dir, "g.tsv", ownerText("\t", first, id)) },
	"g.csv.gz": func(t *testing.T, dir, first, id string) {
		write(t, dir, "g.csv.gz", compressions[".gz"](ownerText(",", first, id)))
	},
	"gz as csv": func(t *testing.T, dir, first, id string) {
		write(t, dir, "g.csv", compressions[".gz"](ownerText(",", first, id)))
	},
	"g.ndjson": func(t *testing.T, dir, first, id string) {
		var b []byte
		for _, id := range ownerIDs(first, id) {
			text, _ := json.Marshal(id)
			b = fmt.Appendf(b, "{\"example_id\":1,\"owners\":[%s]}\n", text)
		}
		write(t, dir, "g.ndjson", b)
	},
	"g.parquet": func(t *testing.T, dir, first, id string) { ownerParquet(t, dir, parquet.String(), ownerIDs(first, id)) },
	"dictionary": func(t *testing.T, dir, first, id string) {
		ownerParquet(t, dir, parquet.Encoded(parquet.String(), &parquet.RLEDictionary), ownerIDs(first, id))
	},
	"list": func(t *testing.T, dir, first, id string) {
		ownerParquet(t, dir, parquet.List(parquet.String()), ownerIDs(first, id))
	},
	"folder": func(t *testing.T, dir, first, id string) {
		for _, id := range ownerIDs(first, id) {
			in := filepath.Join(dir, "owner_id="+url.PathEscape(id))
			must.Do(t, os.MkdirAll(in, 0o700))
			write(t, in, "g.csv", []byte("example_id\n1\n"))
		}
	},
}

func ownerIDs(first, id string) []string {
	if first == "" {
		return []string{id}
	}
	return []string{first, id}
}

func ownerText(delimiter, first, id string) []byte {
	b := []byte("example_id" + delimiter + "owner_id\n")
	for _, id := range ownerIDs(first, id) {
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
		typed := !strings.Contains(name, "sv") && name != "folder" // a column of strings, whatever the first id is
		for _, c := range written {
			owners := func(first string, o graphio.Options) ([]string, *graphio.Source, error) {
				dir := t.TempDir()
				hold(t, dir, first, c.id)
				got, src, _, err := read([]string{dir}, o)
				var ids []string
				for _, e := range got {
					ids = append(ids, e.owner)
				}
				slices.Sort(ids)
				return ids, src, err
			}
			id := c.id
			if name == "g.tsv" {
				id = strings.ReplaceAll(id, "\t", "\u00a0")
			}
			got, src, err := owners("", graphio.Options{})
			switch {
			case c.refused != "" && (err == nil || !strings.Contains(err.Error(), c.refused) || !strings.Contains(err.Error(), "--id-type string")):
				t.Errorf("%s: %q alone: got %q, %v", name, c.id, got, err)
			case c.refused == "" && (err != nil || !slices.Equal(got, []string{id})):
				t.Errorf("%s: %q alone: got %q, %v", name, c.id, got, err)
			case c.refused == "" && !typed && (src.OwnerType == ownergraph.Int64) != c.isInt:
				t.Errorf("%s: %q alone is of type %v", name, c.id, src.OwnerType)
			}
			got, _, err = owners("zoe", graphio.Options{})
			refused := c.refused != "" || name == "folder" && c.isInt // the first records of two files
			if refused != (err != nil) {
				t.Errorf("%s: %q after a string: got %q, %v", name, c.id, got, err)
			}
			both := []string{"zoe", id}
			slices.Sort(both)
			got, _, err = owners("zoe", graphio.Options{OwnerType: "string"})
			if err != nil || !slices.Equal(got, both) {
				t.Errorf("%s: %q asked for as a string: got %q, %v", name, c.id, got, err)
			}
		}
	}
}

// TestIntegersOfAnyFormat: what the formats with types say of numbers.
func TestIntegersOfAnyFormat(t *testing.T) {
	i64 := func(v int64) parquet.Value { return parquet.Int64Value(v) }
	flba := func(s string) parquet.Value { return parquet.FixedLenByteArrayValue([]byte(s)) }
	for _, c := range []struct {
		about   string
		node    parquet.Node
		value   parquet.Value
		json    string // beside it, or in its place
		auto    string // the id, or "" if it is refused
		strings string // the id with --id-type string, or "" if it is refused
	}{
		{"int64", parquet.Int(64), i64(-7), "-7", "-7", "-7"},
		{"int8", parquet.Int(8), parquet.Int32Value(-7), "-7", "-7", "-7"},
		{"int8 beyond", parquet.Int(8), parquet.Int32Value(128), "", "", ""},
		{"int16 beyond", parquet.Int(16), parquet.Int32Value(-1<<15 - 1), "", "", ""},
		{"uint8", parquet.Uint(8), parquet.Int32Value(255), "255", "255", "255"},
		{"uint8 beyond", parquet.Uint(8), parquet.Int32Value(256), "", "", ""},
		{"uint16 below", parquet.Uint(16), parquet.Int32Value(-1), "", "", ""},
		{"older uint8 beyond", parquet.Leaf(olderInt{parquet.Int32Type, deprecated.Uint8}), parquet.Int32Value(256), "", "", ""},
		{"older int16", parquet.Leaf(olderInt{parquet.Int32Type, deprecated.Int16}), parquet.Int32Value(-1 << 15), "-32768", "-32768", "-32768"},
		{"int32 in 64 bits", parquet.Leaf(olderInt{parquet.Int64Type, deprecated.Int32}), i64(7), "", "", ""},
		{"uint32", parquet.Uint(32), parquet.Int32Value(-1), "4294967295", "4294967295", "4294967295"},
		{"uint64", parquet.Uint(64), i64(1<<62 + 1), "4611686018427387905", "4611686018427387905", "4611686018427387905"},
		{"uint64 beyond", parquet.Uint(64), i64(-1), "18446744073709551615", "", "18446744073709551615"},
		{"dictionary of integers", parquet.Encoded(parquet.Int(64), &parquet.RLEDictionary), i64(7), "7", "7", "7"},
		{"fraction", parquet.Leaf(parquet.DoubleType), parquet.DoubleValue(7), "7.0", "", ""},
		{"float", parquet.Leaf(parquet.FloatType), parquet.FloatValue(7), "7e0", "", ""},
		{"bool", parquet.Leaf(parquet.BooleanType), parquet.BooleanValue(true), "true", "", ""},
		{"decimal", parquet.Decimal(0, 9, parquet.Int64Type), i64(7), "", "", ""},
		{"decimal of bytes", parquet.Decimal(0, 9, parquet.FixedLenByteArrayType(4)), flba("\x00\x00\x00\x07"), "", "", ""},
		{"date", parquet.Date(), parquet.Int32Value(7), "", "", ""},
		{"half float", parquet.Leaf(halfFloat{parquet.FixedLenByteArrayType(2)}), flba("\x00\x3c"), "1.0", "", ""},
		{"fixed bytes", parquet.Leaf(parquet.FixedLenByteArrayType(3)), flba("007"), "", "007", "007"},
		{"bytes", parquet.Leaf(parquet.ByteArrayType), parquet.ByteArrayValue([]byte("\xff 7 ")), "", "\xff 7 ", ""},
		{"bytes of a string", parquet.Leaf(parquet.ByteArrayType), parquet.ByteArrayValue([]byte("007")), "", "007", "007"},
		{"a string that is not UTF-8", parquet.String(), parquet.ByteArrayValue([]byte("\xff")), "", "", ""},
		{"uuid", parquet.UUID(), flba("\x55\x0e\x84\x00\xe2\x9b\x41\xd4\xa7\x16\x44\x66\x55\x44\x00\x00"), `"550e8400-e29b-41d4-a716-446655440000"`,
			"550e8400-e29b-41d4-a716-446655440000", "550e8400-e29b-41d4-a716-446655440000"},
	} {
		var b bytes.Buffer
		w := parquet.NewWriter(&b, parquet.NewSchema("g", parquet.Group{"example_id": parquet.Int(64), "owner_id": c.node}))
		must.Get(w.WriteRows([]parquet.Row{{i64(1).Level(0, 0, 0), c.value.Level(0, 0, 1)}}))(t)
		must.Do(t, w.Close())
		files := map[string][]byte{"g.parquet": b.Bytes()}
		if c.json != "" {
			files["g.ndjson"] = fmt.Appendf(nil, "{\"example_id\":1,\"owners\":[%s]}", c.json)
		}
		for name, text := range files {
			for _, asked := range []bool{false, true} {
				o, want := graphio.Options{}, c.auto
				if asked {
					o.OwnerType, want = "string", c.strings
				}
				got, _, _, err := read([]string{write(t, t.TempDir(), name, text)}, o)
				if want == "" && err == nil || want != "" && (err != nil || len(got) != 1 || got[0].owner != want) {
					t.Errorf("%s in %s, strings %v: got %q, %v; want %q", c.about, name, asked, got, err, want)
				}
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

package graphio_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/parquet-go/parquet-go"

	"minsep/internal/graphio"
	"minsep/internal/must"
	"minsep/internal/param"
)

// TestTextIsReadAs covers what the text formats allow.
func TestTextIsReadAs(t *testing.T) {
	two := []edge{{"1", "a"}, {"2", "b"}}
	ints := []edge{{"1", "5"}, {"2", "6"}}
	for _, c := range []struct {
		about, name, text string
		o                 graphio.Options
		want              []edge
	}{
		{"no header", "g.csv", "1,5\n2,6\n", defaults, ints},
		{"no line end at the end", "g.csv", "1,5\n2,6", defaults, ints},
		{"no header, said so", "g.csv", "1,a\n2,b\n", graphio.Options{Header: "no"}, two},
		{"a header by another name", "g.csv", "paper,author\n1,a\n2,b\n", graphio.Options{ExampleColumn: "paper", OwnerColumn: "author"}, two},
		{"positions", "g.csv", "y,author,paper\n0,a,1\n0,b,2\n", graphio.Options{ExampleColumn: "3", OwnerColumn: "2", Header: "yes"}, two},
		{"positions of integers", "g.csv", "0,5,1\n0,6,2\n", graphio.Options{ExampleColumn: "3", OwnerColumn: "2"}, ints},
		{"the first column is the owner", "g.csv", "5,1\n6,2\n", graphio.Options{ExampleColumn: "2"}, ints},
		{"a name and a position", "g.csv", "paper,author\n1,a\n2,b\n", graphio.Options{ExampleColumn: "paper", OwnerColumn: "2"}, two},
		{"a digit is a position, whatever the values", "g.csv", "1,5\n2,6\n", graphio.Options{ExampleColumn: "1", OwnerColumn: "2"}, ints},
		{"quotes", "g.csv", "example_id,owner_id\n\"1\",a\n2,\"b\"\n", defaults, two},
		{"quoted line end and quote", "g.csv", "example_id,owner_id\r\n1,\"a\r\n\"\"x\"\"\"\r\n", defaults, []edge{{"1", "a\r\n\"x\""}}},
		{"quoted line ends of both kinds", "g.csv", "example_id,owner_id\n1,\"a\r\n\nb\"\n", defaults, []edge{{"1", "a\r\n\nb"}}},
		{"blank lines", "g.csv", "\nexample_id,owner_id\n\n1,a\n\n2,b\n\n", defaults, two},
		{"UTF-8 mark", "g.csv", "\xef\xbb\xbfexample_id,owner_id\n1,a\n2,b\n", defaults, two},
		{"semicolons", "g.csv", "example_id;owner_id\n1;a\n2;b\n", graphio.Options{Delimiter: ";"}, two},
		{"TSV has quotes", "g.tsv", "example_id\towner_id\n1\t\"a\tb\"\n2\t\"c\"\"\"\n", defaults, []edge{{"1", "a\tb"}, {"2", "c\""}}},
		{"blanks are kept", "g.tsv", "example_id\towner_id\n1\t a \n", graphio.Options{IDType: "string"}, []edge{{"1", " a "}}},
		{"leading zeros in strings that were asked for", "g.tsv", "example_id\towner_id\n1\t007\n2\t7\n", graphio.Options{IDType: "string"}, []edge{{"1", "007"}, {"2", "7"}}},
		{"a plus in strings that were asked for", "g.tsv", "example_id\towner_id\n+1\t5\n2\t6\n", graphio.Options{IDType: "string"}, []edge{{"+1", "5"}, {"2", "6"}}},
		{"a list of integers", "g.txt", "3\n1\n2\n", defaults, []edge{{"3", "3"}, {"1", "1"}, {"2", "2"}}},
		{"a list with header", "g.csv", "example_id\nx\ny\n", defaults, []edge{{"x", "x"}, {"y", "y"}}},
		{"a list, said so", "g.csv", "x\ny\n", graphio.Options{SingleOwner: true, Header: "no"}, []edge{{"x", "x"}, {"y", "y"}}},
		{"owners ignored", "g.csv", "example_id,owners\nx,1\n", graphio.Options{SingleOwner: true}, []edge{{"x", "x"}}},
		{"format by option", "graph", "1,5\n2,6\n", graphio.Options{Format: graphio.CSV}, ints},
	} {
		reads(t, c.about, write(t, t.TempDir(), c.name, []byte(c.text)), c.o, c.want)
	}
}

// TestFaults gives hostile files and asks for the place and the rule, and that no value is shown.
func TestFaults(t *testing.T) {
	secret := "SECRET"
	long := strings.Repeat("S", 256)
	gz, zst := compressions[".gz"], compressions[".zst"]
	many := bytes.Repeat([]byte("1,2\n"), 1000)
	check := func(about, name, text, want string, o graphio.Options) {
		err := refuses(t, about, write(t, t.TempDir(), name, []byte(text)), o, want)
		if err != nil && (strings.Contains(err.Error(), secret) || strings.Contains(err.Error(), "SSS")) {
			t.Errorf("%s: the error shows a value: %v", about, err)
		}
		var f *graphio.Fault
		var p *param.Error
		if !errors.As(err, &f) && !errors.As(err, &p) {
			t.Errorf("%s: %T is neither Fault nor param.Error", about, err)
		}
	}
	for _, c := range []struct{ about, name, text, want string }{
		{"neither header nor integers", "g.csv", secret + ",2\n", "line 1: a first record that may be a header"},
		{"wrong delimiter", "g.csv", "1;2\n", "line 1: the fields are separated by another byte than by commas: set --delimiter ';'"},
		{"decimals", "g.csv", "1.0,2.0\n2.0,3.0\n", "line 1: column 1: a number that is no plain integer in the first record: ids are integers or texts: write them as integers, or set --header no and --id-type string, which keeps them as they are"},
		{"tabs", "g.csv", "example_id\towner_id\n1\t2\n", "line 1: the fields are separated by another byte than by commas: set --format tsv"},
		{"commas", "g.tsv", "1,2\n3,4\n", "line 1: the fields are separated by another byte than by tabs: set --format csv"},
		{"a semicolon in one line", "g.csv", "a;b\nc\n", "line 1: a first record of one field that is no integer"},
		{"other names", "g.csv", "photo,person\n1,2\n", "or --example-column and --owner-column; the header has photo, person"},
		{"no owner column", "g.csv", "example_id,x\n1,2\n", "line 1: owner_id or owners: no such column"},
		{"two such names", "g.csv", "example_id,owner_id,owner_id\n1,2,3\n", "more than one such column"},
		{"Latin-1 in an id", "g.csv", "example_id,owner_id\n1,\xe9" + secret + "\n", "line 2: column 2: text that is not UTF-8: write it as UTF-8, by iconv"},
		{"a header twice", "g.csv", "example_id,owner_id\na,b\nexample_id,owner_id\nc,d\n", "line 3: a header in the middle of the file"},
		{"a header of other order", "g.csv", "example_id,owner_id\na,b\nowner_id,example_id\nd,c\n", "line 3: a header in the middle of the file"},
		{"a header of a list twice", "g.csv", "example_id\na\nexample_id\nb\n", "line 3: a header in the middle of the file"},
		{"a mark in the middle", "g.csv", "example_id,owner_id\na,b\n\xef\xbb\xbfc,d\n", "line 3: a byte order mark in the middle of the file"},
		{"an open quote in TSV", "g.tsv", "example_id\towner_id\n1\t\"a\n2\tb\n", "line 2: a quoted field without a closing quote: quotes are read as RFC 4180 says"},
		{"a bare quote in TSV", "g.tsv", "example_id\towner_id\n1\ta\"b\n", "line 2: a quote in a field that does not begin with one"},
		{"too few fields", "g.csv", "1,2\n3\n", "line 2: 1 field: must be 2"},
		{"too many fields", "g.tsv", "1\t2\n3\t4\t" + secret + "\n", "line 2: 3 fields: must be 2"},
		{"a word among integers", "g.csv", "1,2\n3," + secret + "\n", "line 2: column 2: not an integer: must be an integer without plus or leading zeros, as in the first record, or set --id-type string"},
		{"leading zeros among integers", "g.csv", "1,2\n3,04\n", "line 2: column 2: an integer with a sign, leading zeros or blanks"},
		{"blanks at the first integer", "g.csv", "example_id,owner_id\n1, 2\n", "line 2: column 2: an integer with a sign, leading zeros or blanks"},
		{"beyond 64 bits", "g.csv", "1,2\n3,9223372036854775808\n", "line 2: column 2: an integer beyond 64 bits"},
		{"empty", "g.csv", "1,2\n3,\n", "line 2: column 2: an example without owners"},
		{"empty string", "g.csv", "example_id,owner_id\nx,y\n,y\n", "line 3: column 1: an empty id"},
		{"long", "g.csv", "example_id,owner_id\nx,y\nx," + long + "\n", "line 3: column 2: a string of more than 255 bytes"},
		{"NUL", "g.csv", "example_id,owner_id\nx,y\nx,a\x00b\n", "line 3: column 2: a string with a NUL"},
		{"UTF-16", "g.csv", "\xff\xfe1\x00,\x002\x00\n\x00", "line 1: NUL bytes or a UTF-16 mark: text must be UTF-8, which iconv"},
		{"bare quote", "g.csv", "example_id,owner_id\nx,y\nx,a\"b\n", "line 3: a quote in a field"},
		{"line ends of old Macs", "g.csv", "1,o1\r2,o1\r3,o1\r", "line 1: a carriage return in a field without quotes: if it ends lines, as on old Macs, write the file anew by tr '\\r' '\\n'"},
		{"line ends of old Macs under a header", "g.csv", "example_id,owner_id\r1,o1\r2,o1\r", "line 1: a carriage return in a field"},
		{"line ends of both kinds", "g.csv", "example_id,owner_id\n1,o1\r2,o1\r3,o1\n", "line 2: a carriage return in a field"},
		{"a carriage return in a later line", "g.tsv", "example_id\towner_id\n1\to1\n2\to1\r3\n", "line 3: a carriage return in a field"},
		{"a carriage return beside quotes", "g.csv", "example_id,owner_id\nx,y\n\"x\",a\rb\n", "line 3: a carriage return in a field"},
		{"two carriage returns at the end", "g.csv", "example_id,owner_id\nx,y\r\r\nx,z\r\r\n", "line 2: a carriage return in a field"},
		{"text after quote", "g.csv", "example_id,owner_id\nx,y\nx,\"a\"b\n", "line 3: a closing quote"},
		{"open quote", "g.csv", "example_id,owner_id\nx,y\n\"x,y\nx,y\n", "line 3: a quoted field without a closing quote"},
		{"nothing", "g.csv", "", "g.csv: the file is empty: a graph needs at least one edge, such as the line 7,alice under the header example_id,owner_id"},
		{"header only", "g.csv", "example_id,owner_id\n", "g.csv: a header, and no record under it: a graph"},
		{"blank lines", "g.csv", "\n\n", "g.csv: no record in the file: a graph"},
		{"no format", "graph.dat", "1,2\n", "the name does not tell the format"},
		{"not gzip", "g.csv.gz", "1,2\n", "not a gzip file"},
		{"truncated gzip", "g.csv.gz", string(gz(many)[:30]), "truncated"},
		{"corrupt gzip", "g.csv", string(gz(many)) + "more than ten bytes", "the compressed file is corrupt"},
		{"truncated zstd", "g.csv.zst", string(zst(many)[:20]), "truncated"},
		{"not Parquet", "g.parquet", "1,2\n", "not a Parquet file"},
		{"Parquet as CSV", "g.csv", "PAR1,2\n", "a Parquet file"},
		{"footer missing", "g.parquet", "PAR1 and more", "the Parquet file is corrupt or truncated"},
		{"a header in other letters", "g.csv", "example_id,owner_id\na,b\nExample_ID,OWNER_ID\n", "line 3: a header in the middle"},
		{"a mark within a line", "g.csv", "example_id,owner_id\na,\ufeffb\n", "line 2: a byte order mark in the middle"},
	} {
		check(c.about, c.name, c.text, c.want, defaults)
	}
	for _, c := range []struct {
		o                       graphio.Options
		about, name, text, want string
	}{
		{graphio.Options{Delimiter: ","}, "wrong delimiter by a flag", "g.csv", "1;2\n", "line 1: the fields are separated by another byte than by --delimiter: set --delimiter ';'"},
		{graphio.Options{Delimiter: ";"}, "needless delimiter", "g.csv", "1,2\n", "line 1: the fields are separated by another byte than by --delimiter: leave --delimiter out: they are separated by commas"},
		{graphio.Options{ExampleColumn: "photo"}, "no header with text ids", "g.csv", "SECRETa,SECRETb\nSECRETc,7\nSECRETd,SECRETe\n", "line 1: photo: no such column"},
		{graphio.Options{ExampleColumn: "photo"}, "no header with integers", "g.csv", "SECRETa,7\nSECRETb,8\n", "line 1: photo: no such column"},
		{graphio.Options{ExampleColumn: "photo", OwnerColumn: "owner"}, "a name of the header", "g.csv", "photo,person\na,b\n", "owner: no such column in the header: set --example-column and --owner-column; the header has photo, person"},
		{graphio.Options{Header: "no"}, "wrong delimiter, no header", "g.csv", "1;2\n", "line 1: the fields are separated by another byte than by commas: set --delimiter ';'"},
		{graphio.Options{ExampleColumn: "paper", OwnerColumn: "b"}, "no such name", "g.csv", "a,b\n1,2\n", "paper: no such column"},
		{graphio.Options{ExampleColumn: "a", Header: "no"}, "names without header", "g.csv", "1,2\n", "columns given by name in a file without a header"},
		{graphio.Options{OwnerColumn: "3"}, "position out of range", "g.csv", "1,2\n", "column 3: the first record has 2 fields"},
		{graphio.Options{OwnerColumn: "1"}, "one column for both", "g.csv", "example_id,b\n1,2\n", "in one column"},
		{graphio.Options{IDType: "string"}, "Latin-1 in a later id", "g.tsv", "example_id\towner_id\n1\ta\n2\tb\n3\t" + secret + "\xe9\n", "line 4: column 2: text that is not UTF-8"},
		{graphio.Options{OwnerSeparator: ","}, "an array without commas", "g.csv", "example_id,owner_id\n1,\"['a','b']\"\n2,['a' 'b']\n", "line 3: column 2: several owners in one value"},
		{graphio.Options{Delimiter: ";", ExampleColumn: "z", OwnerColumn: "x"}, "an own header twice", "g.csv", "x;y;z\na;b;c\nx;y;z\nc;d;e\n", "line 3: a header in the middle of the file"},
		{graphio.Options{Header: "no"}, "a header that is said not to be there", "g.csv", "example_id,owner_id\na,b\n", "line 1: a header, and --header no: leave --header out, or set it to yes"},
		{graphio.Options{Header: "no"}, "a header after none", "g.csv", "a,b\nexample_id,owner_id\nc,d\n", "line 2: a header in the middle of the file"},
		{graphio.Options{IDType: "int64"}, "asked for int64", "g.csv", "example_id,owner_id\n1,x\n", "line 2: column 2: not an integer"},
		{graphio.Options{Header: "no"}, "a number among words", "g.csv", "1,ann\n2,.22\n", "line 2: column 2: a number that is not a plain integer"},
		{graphio.Options{Header: "maybe", Delimiter: ",,"}, "option", "g.csv", "1,2\n", `header maybe: must be auto, yes, no`},
	} {
		check(c.about, c.name, c.text, c.want, c.o)
	}
}

// TestAllFaultsInOnePass has faults in several files and lines.
func TestAllFaultsInOnePass(t *testing.T) {
	dir := t.TempDir()
	write(t, dir, "a.csv", []byte("x,y\n"))
	write(t, dir, "b.dat", []byte("1"))
	write(t, dir, "d.csv", []byte("1,2\n"))
	_, err := graphio.Open(context.Background(), []string{dir, filepath.Join(dir, "none"), filepath.Join(dir, "*.none")}, defaults)
	for _, want := range []string{"a.csv: line 1", "b.dat: the name", "none: no such file", "*.none: no file matches"} {
		must.Fail(t, "several files", want)(err)
	}
	text := "1,2\n" + strings.Repeat("x,y\n", 3) + "1,2\nz\n"
	_, _, _, err = read([]string{write(t, dir, "e.csv", []byte(text))}, defaults)
	for _, want := range []string{"line 2: column 1", "line 3", "line 4", "line 6: 1 field"} {
		must.Fail(t, "several lines", want)(err)
	}
	_, _, _, err = read([]string{write(t, dir, "f.csv", []byte("1,2\n"+strings.Repeat("x,y\n", 300)))}, defaults)
	if n := len(strings.Split(err.Error(), "\n")); n != graphio.MaxFaults {
		t.Errorf("%d faults, want %d", n, graphio.MaxFaults)
	}
}

// TestConflictingTypes has files that do not agree.
func TestConflictingTypes(t *testing.T) {
	dir := t.TempDir()
	ints := graph{true, true, []edge{{"1", "2"}}}
	words := graph{false, true, []edge{{"x", "2"}}}
	intFile := write(t, dir, "a.parquet", formats["edges.parquet"](ints))
	wordFile := write(t, dir, "b.parquet", formats["list.parquet"](words))
	wordCSV := write(t, dir, "c.csv", []byte("example_id,owner_id\nx,2\n"))
	intCSV := write(t, dir, "d.csv", []byte("1,2\n"))
	list := write(t, dir, "e.csv", []byte("1\n2\n"))
	for _, c := range []struct {
		files []string
		want  string
	}{
		{[]string{intFile, wordFile}, "b.parquet: examples: string ids: must be int64 as in"},
		{[]string{wordCSV, intFile}, "c.csv: examples: string ids: must be int64 as in"},
		{[]string{intCSV, wordCSV}, "c.csv: examples: string ids: must be int64 as in"},
		{[]string{wordCSV, intCSV}, "set --id-type string"},
		{[]string{intCSV, list}, "e.csv: only one of this file and"},
	} {
		must.Fail(t, fmt.Sprint(c.files), c.want)(graphio.Open(context.Background(), c.files, defaults))
	}
	if got, _, _, err := read([]string{wordCSV, intCSV, wordFile}, defaults); err != nil || len(got) != 3 {
		t.Errorf("text follows Parquet's type: %q, %v", got, err)
	}
}

// TestParquetFaults has Parquet files with what no graph holds.
func TestParquetFaults(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, schema parquet.Group, rows ...parquet.Row) string {
		var b bytes.Buffer
		w := parquet.NewWriter(&b, parquet.NewSchema("g", schema))
		must.Get(w.WriteRows(rows))(t)
		must.Do(t, w.Close())
		return write(t, dir, name, b.Bytes())
	}
	i64 := func(v int64) parquet.Value { return parquet.Int64Value(v) }
	str := func(n int) parquet.Value { return parquet.ByteArrayValue(make([]byte, n)) }
	one := i64(1).Level(0, 0, 0)
	id, null := parquet.Int(64), parquet.NullValue()
	opt := parquet.Optional(id)
	list := parquet.Group{"example_id": id, "owners": parquet.Optional(parquet.List(opt))}
	for name, c := range map[string]struct {
		path, want string
	}{
		"missing":       {file("a.parquet", parquet.Group{"example_id": id, "x": id}), "owner_id or owners: no such column"},
		"double":        {file("b.parquet", parquet.Group{"example_id": id, "owner_id": parquet.Leaf(parquet.DoubleType)}), "owner_id: type DOUBLE: must be integers, strings or bytes"},
		"timestamp":     {file("c.parquet", parquet.Group{"example_id": parquet.Timestamp(parquet.Millisecond), "owner_id": opt}), "example_id: type TIMESTAMP"},
		"both":          {file("d.parquet", parquet.Group{"example_id": opt, "owner_id": opt, "owners": opt}), "more than one such column"},
		"struct of one": {file("one.parquet", parquet.Group{"example_id": opt, "owner_id": parquet.Group{"a": opt}}), "a group of columns"},
		"nested":        {file("deep.parquet", parquet.Group{"example_id": opt, "owner_id": parquet.Group{"a": parquet.Group{"b": opt}}}), "a group of columns"},
		"group":         {file("e.parquet", parquet.Group{"example_id": opt, "owner_id": parquet.Group{"a": opt, "b": opt}}), "a group of columns"},
		"list of list":  {file("f.parquet", parquet.Group{"example_id": opt, "owners": parquet.List(parquet.List(opt))}), "a list of lists"},
		"list example":  {file("g.parquet", parquet.Group{"example_id": parquet.List(opt), "owners": opt}), "example_id: a list"},
		"null":          {file("h.parquet", parquet.Group{"example_id": id, "owner_id": opt}, parquet.Row{one, i64(1).Level(0, 1, 1)}, parquet.Row{one, null.Level(0, 0, 1)}), "row group 1: row 2: owner_id: null"},
		"uint64":        {file("i.parquet", parquet.Group{"example_id": parquet.Uint(64), "owner_id": id}, parquet.Row{i64(-1).Level(0, 0, 0), i64(1).Level(0, 0, 1)}), "row group 1: row 1: example_id: an integer beyond 64 bits"},
		"long":          {file("j.parquet", parquet.Group{"example_id": id, "owner_id": parquet.String()}, parquet.Row{one, str(255).Level(0, 0, 1)}, parquet.Row{one, str(256).Level(0, 0, 1)}), "row group 1: row 2: owner_id: a string of more than 255 bytes"},
		"empty":         {file("k.parquet", parquet.Group{"example_id": id, "owner_id": parquet.String()}, parquet.Row{one, str(0).Level(0, 0, 1)}), "owner_id: an empty id"},
		"null list":     {file("l.parquet", list, parquet.Row{one, null.Level(0, 0, 1)}), "row group 1: row 1: owners: an example without owners"},
		"empty list":    {file("m.parquet", list, parquet.Row{one, i64(1).Level(0, 3, 1)}, parquet.Row{one, null.Level(0, 1, 1)}), "row group 1: row 2: owners: an example without owners"},
		"null element":  {file("n.parquet", list, parquet.Row{one, i64(1).Level(0, 3, 1), null.Level(1, 2, 1)}), "row group 1: row 1: owners: null"},
	} {
		refuses(t, name, c.path, defaults, c.want)
	}
	small := file("o.parquet", parquet.Group{"example_id": parquet.Uint(32), "owner_id": parquet.Int(8)}, parquet.Row{parquet.Int32Value(-1).Level(0, 0, 0), parquet.Int32Value(-1).Level(0, 0, 1)})
	reads(t, "small integers", small, defaults, []edge{{"4294967295", "-1"}})
}

// TestDamagedParquet cuts a file and changes each byte of it: it is read as it was, or refused,
// never otherwise in length.
func TestDamagedParquet(t *testing.T) {
	g := graph{false, true, []edge{{"x1", "1"}, {"x1", "2"}, {"x2", "3"}, {"x3", "4"}, {"x3", "5"}}}
	for _, name := range []string{"edges.parquet", "list.parquet"} {
		b := formats[name](g)
		for n := range b {
			if _, err := readMemory("cut.parquet", b[:n], defaults); err == nil {
				t.Fatalf("%s cut to %d of %d bytes was read", name, n, len(b))
			}
		}
		for i := range b {
			for _, x := range []byte{1, 0x80, 0xff} {
				c := bytes.Clone(b)
				c[i] ^= x
				got, err := readMemory("changed.parquet", c, defaults)
				var f *graphio.Fault
				if err != nil && !errors.As(err, &f) {
					t.Fatalf("%s with byte %d changed: %v is no Fault", name, i, err)
				}
				if err == nil && len(got) != len(g.edges) {
					t.Fatalf("%s with byte %d changed: %d edges", name, i, len(got))
				}
			}
		}
	}
}

func TestUnreadableFile(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "empty"), 0o700))
	must.Do(t, os.Symlink(dir, filepath.Join(dir, "link")))
	for path, want := range map[string]string{
		filepath.Join(dir, "empty"): "no file in the folder",
		dir:                         "symbolic link",
		"/dev/null":                 "not a regular file",
		filepath.Join(dir, "[a-"):   "syntax error in pattern",
	} {
		_, err := graphio.Open(context.Background(), []string{path}, defaults)
		must.Fail(t, path, want)(err)
	}
	must.Fail(t, "no path", "must name at least one file")(graphio.Open(context.Background(), nil, defaults))
}

// TestFaultOfAName: a name that would act on a terminal, or end a line, is shown with escapes.
func TestFaultOfAName(t *testing.T) {
	f := graphio.Fault{File: "a\n\x1b[2Jb.csv", Rule: "must be a table"}
	if got := f.Error(); got != `--graph a\n\x1b[2Jb.csv: must be a table` {
		t.Errorf("%q", got)
	}
}

// TestLinkToNowhere: of a folder, the file that is not there is named, without the ids in its path.
func TestLinkToNowhere(t *testing.T) {
	dir := t.TempDir()
	must.Do(t, os.Mkdir(filepath.Join(dir, "owner_id=ann"), 0o700))
	must.Do(t, os.Symlink("nowhere", filepath.Join(dir, "owner_id=ann", "part.csv")))
	_, err := graphio.Open(t.Context(), []string{dir}, defaults)
	if err == nil || !strings.Contains(err.Error(), "part.csv: no such file") || strings.Contains(err.Error(), "ann") {
		t.Errorf("%v", err)
	}
}

// TestLongLines: a line of exactly the limit is read, and one byte more is refused, whatever the
// line's end and in quotes too.
func TestLongLines(t *testing.T) {
	for end, quote := range map[string]string{"": `"`, "\n": "", "\r\n": `"`} {
		for _, more := range []int{0, 1} {
			field := strings.Repeat("x", graphio.MaxLine-len("1,2,")-2*len(quote)+more)
			text := "example_id,owner_id,more\n1,2," + quote + field + quote + end
			got, err := readMemory("f.csv", []byte(text), defaults)
			if more == 0 && (err != nil || !slices.Equal(got, []edge{{"1", "2"}})) {
				t.Errorf("%q, %q: %q, %v", quote, end, got, err)
			}
			if more == 1 && (err == nil || !strings.Contains(err.Error(), "line 2: a line of more than 64 MiB")) {
				t.Errorf("%q, %q: one byte too many: %q, %v", quote, end, got, err)
			}
		}
	}
}

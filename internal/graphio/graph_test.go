package graphio_test

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"minsep/internal/graphio"
	"minsep/internal/ownergraph"
)

// edge is an edge as text.
type edge struct{ example, owner string }

// graph is a graph to write: examples with their owners, in order.
type graph struct {
	exampleInt, ownerInt bool
	edges                []edge // edges of one example stand together
}

func idGen(ints bool) *rapid.Generator[string] {
	if ints {
		return rapid.Custom(func(t *rapid.T) string {
			if rapid.IntRange(0, 9).Draw(t, "extreme") == 0 {
				return strconv.FormatInt(rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, 0, -1}).Draw(t, "id"), 10)
			}
			return strconv.FormatInt(rapid.Int64Range(-50, 1<<40).Draw(t, "id"), 10)
		})
	}
	return rapid.OneOf(rapid.StringMatching(`x[ -~]{0,8}[!-~]`), rapid.StringMatching("x[,\"; éß\u4e16\U0001F600]{0,5}[,\";éß\u4e16\U0001F600]"), rapid.Just("x"+strings.Repeat("y", 254)))
}

func graphGen() *rapid.Generator[graph] {
	return rapid.Custom(func(t *rapid.T) graph {
		g := graph{exampleInt: rapid.Bool().Draw(t, "int examples"), ownerInt: rapid.Bool().Draw(t, "int owners")}
		for range rapid.IntRange(1, 12).Draw(t, "examples") {
			e := idGen(g.exampleInt).Draw(t, "example")
			for range rapid.IntRange(1, 6).Draw(t, "owners") {
				g.edges = append(g.edges, edge{e, idGen(g.ownerInt).Draw(t, "owner")})
			}
		}
		return g
	})
}

// rows are the examples of a graph with their owners.
func (g graph) rows() (rows [][]edge) {
	for i, e := range g.edges {
		if i == 0 || e.example != g.edges[i-1].example {
			rows = append(rows, nil)
		}
		rows[len(rows)-1] = append(rows[len(rows)-1], e)
	}
	return rows
}

// formats write a graph in every format.
var formats = map[string]func(g graph) []byte{
	"header.csv": func(g graph) []byte { return g.csv(true) },
	"crlf.csv":   func(g graph) []byte { return g.csv(false) },
	"tab.tsv": func(g graph) []byte {
		var b bytes.Buffer
		w := csv.NewWriter(&b)
		w.Comma = '\t'
		w.Write([]string{"owner_id", "more", "example_id"})
		for _, e := range g.edges {
			w.Write([]string{e.owner, "a \"quote\"", e.example})
		}
		w.Flush()
		return b.Bytes()
	},
	"edges.parquet": func(g graph) []byte {
		return g.parquet(parquet.Group{"example_id": idNode(g.exampleInt, false), "owner_id": parquet.Encoded(idNode(g.ownerInt, false), &parquet.RLEDictionary)})
	},
	"optional.parquet": func(g graph) []byte {
		return g.parquet(parquet.Group{"example_id": idNode(g.exampleInt, true), "owner_id": idNode(g.ownerInt, true), "more": parquet.Leaf(parquet.DoubleType)})
	},
	"list.parquet": func(g graph) []byte {
		return g.parquet(parquet.Group{"example_id": idNode(g.exampleInt, false), "owners": parquet.Optional(parquet.List(idNode(g.ownerInt, true)))})
	},
	"repeated.parquet": func(g graph) []byte {
		return g.parquet(parquet.Group{"example_id": parquet.Compressed(idNode(g.exampleInt, false), &parquet.Snappy), "owners": parquet.Repeated(idNode(g.ownerInt, false))})
	},
}

func (g graph) csv(lf bool) []byte {
	var b bytes.Buffer
	w := csv.NewWriter(&b)
	w.UseCRLF = !lf
	w.Write([]string{"example_id", " owner_id "})
	for _, e := range g.edges {
		w.Write([]string{e.example, e.owner})
	}
	w.Flush()
	return b.Bytes()
}

func idNode(ints, optional bool) parquet.Node {
	n := parquet.String()
	if ints {
		n = parquet.Int(64)
	}
	if optional {
		n = parquet.Optional(n)
	}
	return n
}

func value(s string, ints bool) parquet.Value {
	if ints {
		v, _ := strconv.ParseInt(s, 10, 64)
		return parquet.Int64Value(v)
	}
	return parquet.ByteArrayValue([]byte(s))
}

// parquet writes rows, two in a row group.
func (g graph) parquet(schema parquet.Group) []byte {
	var b bytes.Buffer
	s := parquet.NewSchema("graph", schema)
	w := parquet.NewWriter(&b, s, parquet.MaxRowsPerRowGroup(2), parquet.PageBufferSize(64))
	leaf := func(path ...string) (parquet.LeafColumn, bool) { return s.Lookup(path...) }
	example, _ := leaf("example_id")
	var rows []parquet.Row
	if owner, ok := leaf("owner_id"); ok {
		for _, e := range g.edges {
			row := parquet.Row{value(e.example, g.exampleInt).Level(0, example.MaxDefinitionLevel, example.ColumnIndex)}
			if more, ok := leaf("more"); ok {
				row = append(row, parquet.DoubleValue(.5).Level(0, 0, more.ColumnIndex))
			}
			rows = append(rows, append(row, value(e.owner, g.ownerInt).Level(0, owner.MaxDefinitionLevel, owner.ColumnIndex)))
		}
	} else {
		owner, ok := leaf("owners", "list", "element")
		if !ok {
			owner, _ = leaf("owners")
		}
		for _, r := range g.rows() {
			row := parquet.Row{value(r[0].example, g.exampleInt).Level(0, 0, example.ColumnIndex)}
			for i, e := range r {
				row = append(row, value(e.owner, g.ownerInt).Level(min(i, 1), owner.MaxDefinitionLevel, owner.ColumnIndex))
			}
			rows = append(rows, row)
		}
	}
	if _, err := w.WriteRows(rows); err != nil {
		panic(err)
	}
	if err := w.Close(); err != nil {
		panic(err)
	}
	return b.Bytes()
}

// compressions change the bytes of a text file and its name.
var compressions = map[string]func([]byte) []byte{
	"": func(b []byte) []byte { return b },
	".gz": func(b []byte) []byte { // two members
		var out bytes.Buffer
		for _, part := range [][]byte{b[:len(b)/3], b[len(b)/3:]} {
			w := gzip.NewWriter(&out)
			w.Write(part)
			w.Close()
		}
		return out.Bytes()
	},
	".zst": func(b []byte) []byte {
		w, _ := zstd.NewWriter(nil)
		return w.EncodeAll(b[len(b)/2:], w.EncodeAll(b[:len(b)/2], nil))
	},
}

// write puts a file into a temporary folder and returns its path.
func write(t interface{ Fatal(...any) }, dir, name string, b []byte) string {
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// defaults are the options of one who sets none.
var defaults graphio.Options

// read reads a graph; its splits have gone through JSON.
func read(paths []string, o graphio.Options) (edges []edge, src *graphio.Source, ownerless int64, err error) {
	ctx := context.Background()
	src, err = graphio.Open(ctx, paths, o)
	if err != nil {
		return nil, nil, 0, err
	}
	for _, s := range src.Splits() {
		text, err := json.Marshal(s)
		if err != nil {
			return nil, nil, 0, err
		}
		var s2 graphio.Split
		if err := json.Unmarshal(text, &s2); err != nil {
			return nil, nil, 0, err
		}
		err = s2.Read(ctx, nil, func(b *graphio.Batch) error {
			ownerless += b.Ownerless
			for i := range b.Examples.Len() {
				e := edge{example: b.Examples.Format(i)}
				if b.SingleOwner {
					e.owner = e.example
				} else {
					e.owner = b.Owners.Format(i)
				}
				edges = append(edges, e)
			}
			if b.Owners.Len() != b.Examples.Len() && !b.SingleOwner {
				return fmt.Errorf("%d examples, %d owners", b.Examples.Len(), b.Owners.Len())
			}
			return nil
		})
		if err != nil {
			return nil, nil, 0, err
		}
	}
	return edges, src, ownerless, nil
}

// reads reports edges of a file or folder that are not as wanted, or a fault.
func reads(t *testing.T, about, path string, o graphio.Options, want []edge) {
	t.Helper()
	got, _, _, err := read([]string{path}, o)
	if err != nil || !slices.Equal(got, want) {
		t.Errorf("%s: got %q, %v; want %q", about, got, err, want)
	}
}

// refuses reports a file or folder that is read, or refused with another text, and returns the fault.
func refuses(t *testing.T, about, path string, o graphio.Options, want string) error {
	t.Helper()
	got, _, _, err := read([]string{path}, o)
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: got %q, %v; want %q", about, got, err, want)
	}
	return err
}

func idType(ints bool) ownergraph.IDType {
	if ints {
		return ownergraph.Int64
	}
	return ownergraph.String
}

// TestEveryFormatGivesTheSameGraph writes random graphs in every format and compression and reads
// them back.
func TestEveryFormatGivesTheSameGraph(t *testing.T) {
	dir := t.TempDir()
	for name, format := range formats {
		t.Run(name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				g := graphGen().Draw(t, "graph")
				b := format(g)
				ext := ""
				if !strings.HasSuffix(name, "parquet") {
					ext = rapid.SampledFrom([]string{"", "", ".gz", ".zst"}).Draw(t, "compression")
				}
				path := write(t, dir, name+ext, compressions[ext](b))
				got, src, _, err := read([]string{path}, graphio.Options{OwnerSeparator: graphio.NoSeparator})
				if err != nil || !slices.Equal(got, g.edges) {
					t.Fatalf("got %q, %v; want %q", got, err, g.edges)
				}
				if src.ExampleType != idType(g.exampleInt) || src.OwnerType != idType(g.ownerInt) || src.SingleOwner {
					t.Fatalf("types %v %v", src.ExampleType, src.OwnerType)
				}
			})
		})
	}
}

package graphio_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"minsep/internal/graphio"
	"minsep/internal/must"
	"minsep/internal/ownergraph"
)

// TestRowIDs: rows are numbered across files of every format, in their order, however they are
// divided; rows that are left out count, and columns of examples are not read.
func TestRowIDs(t *testing.T) {
	five := []edge{{"0", "a"}, {"1", "b"}, {"2", "a"}, {"3", "c"}, {"4", "b"}}
	files := map[string]string{
		"1.csv":     "x,owner_id\n,a\n\n,b\n\"\n\",a\n,c\n,b\n",
		"2.csv":     "owner_id\na\nb\na\nc\nb\n",
		"3.csv":     "example_id,owner_id\n0,a\n1,b\n0,a\n0,c\n0,b\n",
		"5.parquet": string(formats["edges.parquet"](graph{true, false, five})),
		"6.parquet": string(formats["optional.parquet"](graph{true, false, five})),
		"7.csv.gz":  string(compressions[".gz"]([]byte("owner_id\na\nb\na\nc\nb\n"))),
	}
	var want []edge
	for file := range len(files) {
		for row, e := range five {
			want = append(want, edge{fmt.Sprint(5*file + row), e.owner})
		}
	}
	for _, o := range []graphio.Options{{RowIDs: true}, {RowIDs: true, SkipOwnerless: true, IDType: "string"}} {
		reads(t, fmt.Sprintf("%+v", o), tree(t, files), o, want)
	}
	skipped := tree(t, map[string]string{
		"1.csv": "owner_id,x\n,\na,\n,\n",
		"2.csv": "owner_id,x\n[],\n\"b,c\",\n,\n",
		"3.csv": "owner_id,x\n[],\n[d],\n",
	})
	got, _, ownerless, err := read([]string{skipped}, graphio.Options{RowIDs: true, SkipOwnerless: true, OwnerSeparator: ","})
	if err != nil || ownerless != 5 || !slices.Equal(got, []edge{{"1", "a"}, {"4", "b"}, {"4", "c"}, {"7", "d"}}) {
		t.Errorf("%q, %d without owners, %v", got, ownerless, err)
	}
	for _, o := range []graphio.Options{{RowIDs: true, ExampleColumn: "x"}, {RowIDs: true, SingleOwner: true}} {
		if o.Validate() == nil {
			t.Errorf("%+v is valid", o)
		}
	}
}

// TestRestartingIDs: example ids that begin again in several files are warned of, in every format,
// and others are not.
func TestRestartingIDs(t *testing.T) {
	rows := func(from, step int) (e []edge) {
		for i := range 6000 {
			e = append(e, edge{fmt.Sprint(from + i*step), "o"})
		}
		return e
	}
	shuffled := rows(0, 1)
	for i := range shuffled { // 7 has no common factor with 6000
		shuffled[i] = edge{fmt.Sprint(i * 7 % len(shuffled)), "o"}
	}
	named := func(by string) string {
		text := "example_id,owner_id\n"
		for i := range 50 {
			text += fmt.Sprintf("%s-%d,o\n", by, i)
		}
		return text
	}
	file := func(name string, e []edge) string { return string(formats[name](graph{true, false, e})) }
	fromZero := file("header.csv", rows(0, 1))
	for _, c := range []struct {
		about  string
		files  map[string]string
		o      graphio.Options
		warned bool
	}{
		{"CSV", map[string]string{"1.csv": fromZero, "2.csv": fromZero}, defaults, true},
		{"from 1, in two formats", map[string]string{"1.csv": file("header.csv", rows(1, 1)), "2.parquet": file("edges.parquet", rows(1, 1)), "3.csv": "example_id,owner_id\n9,o\n"}, defaults, true},
		{"a file beside one that is shuffled", map[string]string{"1.csv": "example_id,owner_id\n2,o\n0,o\n1,o\n", "2.csv": "example_id,owner_id\n0,o\n0,p\n1,o\n"}, defaults, true},
		{"shuffled, and longer than a batch", map[string]string{"1.csv": file("header.csv", shuffled), "2.parquet": file("edges.parquet", shuffled)}, defaults, true},
		{"named rows", map[string]string{"1.csv": named("row"), "2.csv": named("row")}, defaults, true},
		{"rows of other names", map[string]string{"1.csv": named("a"), "2.csv": named("b")}, defaults, false},
		{"integers as strings", map[string]string{"1.parquet": file("edges.parquet", rows(0, 1)), "2.parquet": file("edges.parquet", rows(0, 1))}, graphio.Options{IDType: "string"}, true},
		{"one goes on", map[string]string{"1.csv": fromZero, "2.csv": file("header.csv", rows(6000, 1))}, defaults, false},
		{"parts of one numbering", map[string]string{"1.csv": file("header.csv", rows(0, 2)), "2.csv": file("header.csv", rows(1, 2))}, defaults, false},
		{"numbered by us", map[string]string{"1.csv": fromZero, "2.csv": fromZero}, graphio.Options{RowIDs: true}, false},
		{"one file", map[string]string{"1.csv": fromZero}, defaults, false},
	} {
		source := must.Get(graphio.Open(context.Background(), []string{tree(t, c.files)}, c.o))(t)
		warned := false
		for _, w := range source.Warnings(context.Background(), ownergraph.Summary{Examples: 6000, Owners: 1, GivenPerOwner: ownergraph.Histogram{{Value: 6000, Count: 1}}}, nil) {
			warned = warned || strings.Contains(w.Error(), "set --row-ids")
		}
		if warned != c.warned {
			t.Errorf("%s: warned %t", c.about, warned)
		}
	}
}

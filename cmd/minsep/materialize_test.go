package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"
	"github.com/rogpeppe/go-internal/testscript"

	"minsep/manifest"
)

// writtenExample is a row of the data of scripts.
type writtenExample struct {
	ExampleID int64   `parquet:"example_id"`
	Text      string  `parquet:"text"`
	Label     *string `parquet:"label,optional"`
}

// examples N FILE writes the examples 0 to N-1, the last one first, as Parquet.
func examples(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: examples N FILE")
	}
	var rows []writtenExample
	for id := atoi(ts, args[0]) - 1; id >= 0; id-- {
		rows = append(rows, writtenExample{ExampleID: int64(id), Text: strings.Repeat(fmt.Sprint(id), 20)})
	}
	var b bytes.Buffer
	ts.Check(parquet.Write(&b, rows, parquet.MaxRowsPerRowGroup(1000)))
	ts.Check(os.WriteFile(ts.MkAbs(args[1]), b.Bytes(), 0o600))
}

// editparquet FILE COLUMN swaps the values of a column in the first and the last row of a Parquet
// file, and makes the index beside it say that this is the file.
func editParquet(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: editparquet FILE COLUMN")
	}
	content, err := os.ReadFile(ts.MkAbs(args[0]))
	ts.Check(err)
	f, err := parquet.OpenFile(bytes.NewReader(content), int64(len(content)))
	ts.Check(err)
	column, found := f.Schema().Lookup(args[1])
	if !found {
		ts.Fatalf("no column %s", args[1])
	}
	var rows []parquet.Row
	for _, group := range f.RowGroups() {
		r := group.Rows()
		buffer := make([]parquet.Row, group.NumRows())
		if n, err := r.ReadRows(buffer); n < len(buffer) {
			ts.Fatalf("%d rows of %d: %v", n, len(buffer), err)
		}
		for _, row := range buffer {
			rows = append(rows, row.Clone())
		}
		ts.Check(r.Close())
	}
	first, last := rows[0], rows[len(rows)-1]
	at := slices.IndexFunc(first, func(v parquet.Value) bool { return v.Column() == column.ColumnIndex })
	first[at], last[at] = last[at], first[at]
	var b bytes.Buffer
	w := parquet.NewWriter(&b, f.Schema())
	_, err = w.WriteRows(rows)
	ts.Check(err)
	ts.Check(w.Close())
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b.Bytes(), 0o600))
	dir := filepath.Dir(ts.MkAbs(args[0]))
	index, err := manifest.Read(context.Background(), dir)
	ts.Check(err)
	for i, f := range index.Files {
		if f.Name == filepath.Base(args[0]) {
			index.Files[i].Bytes, index.Files[i].SHA256 = int64(b.Len()), sha256.Sum256(b.Bytes())
		}
	}
	text, err := json.Marshal(index)
	ts.Check(err)
	ts.Check(os.WriteFile(filepath.Join(dir, manifest.IndexName), text, 0o600))
}

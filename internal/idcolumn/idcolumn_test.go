package idcolumn_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/parquet-go/parquet-go"

	"minsep/internal/idcolumn"
	"minsep/internal/must"
	"minsep/internal/ownergraph"
)

type paper struct {
	ID      int32    `parquet:"id"`
	Authors []string `parquet:"authors,list"`
}

func papers(t interface{ Fatal(...any) }, rows ...paper) *idcolumn.File {
	var b bytes.Buffer
	if err := parquet.Write(&b, rows); err != nil {
		t.Fatal(err)
	}
	f, err := idcolumn.Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// reader opens top-level column i of the first row group.
func reader(t interface{ Fatal(...any) }, f *idcolumn.File, i int) *idcolumn.Reader {
	c := f.Columns[i]
	if _, err := f.Check(c, 0); c.Err != nil || err != nil {
		t.Fatal(err)
	}
	return f.Reader(c, 0)
}

// TestReadingGoesOnAfterAValueError: the value is passed over, and what follows is where it should
// be.
func TestReadingGoesOnAfterAValueError(t *testing.T) {
	f := papers(t, paper{1, []string{"a", "", "b"}}, paper{2, nil}, paper{3, []string{"c"}})
	r := reader(t, f, 1)
	for _, want := range []struct {
		ids  int
		err  error
		last string
	}{{3, idcolumn.Empty, "b"}, {0, nil, ""}, {1, nil, "c"}, {0, io.EOF, ""}} {
		var ids ownergraph.IDs
		ids.Reset(ownergraph.String)
		n, err := r.Row(&ids)
		if n != want.ids || err != want.err || want.last != "" && ids.Format(ids.Len()-1) != want.last {
			t.Errorf("got %d ids and %v, want %+v", n, err, want)
		}
	}
}

func TestFillWantsNoMoreThanThereIs(t *testing.T) {
	r := reader(t, papers(t, paper{ID: 1}, paper{ID: -2}), 0)
	var ids ownergraph.IDs
	n, err := r.Fill(&ids, 3)
	if n != 2 || !errors.Is(err, idcolumn.ErrCorrupt) || ids.Int(1) != -2 {
		t.Errorf("got %d ids, %v", n, err)
	}
}

func TestLZ4IsRefused(t *testing.T) {
	var b bytes.Buffer
	must.Do(t, parquet.Write(&b, []paper{{ID: 1}}, parquet.Compression(&parquet.Lz4Raw)))
	f := must.Get(idcolumn.Open(bytes.NewReader(b.Bytes()), int64(b.Len())))(t)
	if _, err := f.Check(f.Columns[0], 0); !errors.Is(err, idcolumn.ErrLZ4) {
		t.Errorf("got %v", err)
	}
}

func ExampleReader_Row() {
	var b bytes.Buffer
	if err := parquet.Write(&b, []paper{{17, []string{"ada", "emmy"}}, {23, []string{"ada"}}}); err != nil {
		panic(err)
	}
	f, err := idcolumn.Open(bytes.NewReader(b.Bytes()), int64(b.Len()))
	if err != nil {
		panic(err)
	}
	column := f.Columns[1]
	if _, err := f.Check(column, 0); err != nil {
		panic(err)
	}
	r := f.Reader(column, 0)
	var authors ownergraph.IDs
	for {
		authors.Reset(column.Type)
		n, err := r.Row(&authors)
		if err == io.EOF {
			break
		} else if err != nil {
			panic(err)
		}
		fmt.Println(n, authors.Format(0))
	}
	// Output:
	// 2 ada
	// 1 ada
}

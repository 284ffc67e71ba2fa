package manifest

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/parquet-go/parquet-go"
	"pgregory.net/rapid"

	"minsep/internal/must"
	"minsep/internal/ownergraph"
)

// tableRow is a row as text.
type tableRow struct {
	example string
	copies  uint32
	owners  []string
}

func appendID(c *ownergraph.IDs, v int) {
	if c.Type == ownergraph.Int64 {
		c.AppendInt(int64(v)*3 - 7)
	} else {
		c.AppendBytes(fmt.Appendf(nil, "%06d%s", v, strings.Repeat("é", v%5)))
	}
}

// makeRows makes rows first to first+n with owners drawn by rng.
func makeRows(example, owner ownergraph.IDType, first int64, n int, owners func() int) *ownergraph.Rows {
	r := new(ownergraph.Rows)
	r.Reset(first, example, owner)
	for i := range n {
		appendID(&r.Examples, int(first)+2*i)
		r.Copies = append(r.Copies, uint32(1+i%3))
		for range owners() {
			appendID(&r.Owners, r.Owners.Len()%1000)
		}
		r.Ends = append(r.Ends, uint32(r.Owners.Len()))
	}
	return r
}

func tableText(r *ownergraph.Rows) (out []tableRow) {
	for i := range r.Len() {
		t := tableRow{example: r.Examples.Format(i), copies: r.Copies[i]}
		if len(r.Ends) > 0 {
			for o, end := r.OwnersOf(i); o < end; o++ {
				t.owners = append(t.owners, r.Owners.Format(o))
			}
		}
		out = append(out, t)
	}
	return out
}

// writePart writes rows in portions.
func writePart(t interface{ Fatal(...any) }, r *ownergraph.Rows, portion int) []byte {
	var b bytes.Buffer
	w := NewBoundedWriter(&b, r.Examples.Type, r.Owners.Type, len(r.PoolEnds) > 0)
	var part ownergraph.Rows
	for i := 0; i < r.Len(); i += portion {
		part.Reset(r.First+int64(i), r.Examples.Type, r.Owners.Type)
		for j := i; j < min(i+portion, r.Len()); j++ {
			part.AppendFrom(r, j)
		}
		if err := w.Write(&part); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func readPart(b []byte, first int64, owners bool, size int) (*BoundedPart, []tableRow, error) {
	p, err := OpenBoundedPart(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		return nil, nil, err
	}
	var rows []tableRow
	err = p.Each(first, owners, size, func(r *ownergraph.Rows) error {
		if r.First != first+int64(len(rows)) || r.Len() > size {
			return fmt.Errorf("%d rows from %d", r.Len(), r.First)
		}
		rows = append(rows, tableText(r)...)
		return nil
	})
	return p, rows, err
}

// boundedRow is a row of a part without pools.
type boundedRow[E, O int64 | string] struct {
	Row       int64 `parquet:"row,delta"`
	ExampleID E     `parquet:"example_id"`
	Copies    int32 `parquet:"copies"`
	Owners    []O   `parquet:"owners,list"`
}

var idTypes = []ownergraph.IDType{ownergraph.Int64, ownergraph.String, ownergraph.Bytes}

// TestBoundedTable writes random tables in portions of any size: the bytes are the same, and what
// is read is what was written.
func TestBoundedTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		example, owner := rapid.SampledFrom(idTypes).Draw(t, "example"), rapid.SampledFrom(idTypes).Draw(t, "owner")
		first := rapid.SampledFrom([]int64{0, 1, 1 << 20}).Draw(t, "first")
		n := rapid.SampledFrom([]int{0, 1, 2, 100, boundedPageRows, boundedPageRows + 1}).Draw(t, "rows")
		rows := makeRows(example, owner, first, n, func() int { return rapid.IntRange(0, 4).Draw(t, "owners") })
		b := writePart(t, rows, max(n, 1))
		if again := writePart(t, rows, rapid.IntRange(1, 700).Draw(t, "portion")); !bytes.Equal(b, again) {
			t.Fatal("the bytes depend on the portions")
		}
		size := rapid.IntRange(1, 5000).Draw(t, "size")
		p, got, err := readPart(b, first, true, size)
		if err != nil {
			t.Fatal(err)
		}
		if p.ExampleType != example || p.OwnerType != owner || p.Rows != int64(n) {
			t.Fatalf("a part of %d rows with %v and %v", p.Rows, p.ExampleType, p.OwnerType)
		}
		want := tableText(rows)
		if diff := cmp.Diff(want, got, cmp.AllowUnexported(tableRow{})); diff != "" {
			t.Fatal(diff)
		}
		for i := range want {
			want[i].owners = nil
		}
		if _, got, err = readPart(b, first, false, size); err != nil || !cmp.Equal(want, got, cmp.AllowUnexported(tableRow{})) {
			t.Fatalf("without owners: %v", err)
		}
	})
}

// TestBoundedRowGroups: groups end after a number of rows or bytes, wherever the portions end.
func TestBoundedRowGroups(t *testing.T) {
	one := func() int { return 1 }
	for _, c := range []struct {
		rows   *ownergraph.Rows
		groups []int64
	}{
		{makeRows(ownergraph.Int64, ownergraph.Int64, 0, 2*boundedGroupRows+10, one), []int64{boundedGroupRows, boundedGroupRows, 10}},
		{makeRows(ownergraph.Int64, ownergraph.Int64, 0, 90, func() int { return 100_000 }), []int64{84, 6}},
	} {
		b := writePart(t, c.rows, 30_001)
		p := must.Get(OpenBoundedPart(bytes.NewReader(b), int64(len(b))))(t)
		var groups []int64
		for g := range p.file.Groups() {
			groups = append(groups, p.file.GroupRows(g))
		}
		if !slices.Equal(groups, c.groups) {
			t.Errorf("row groups %v, want %v", groups, c.groups)
		}
		n, owners := 0, 0
		if err := p.Each(0, true, 1000, func(r *ownergraph.Rows) error { n += r.Len(); owners += r.Owners.Len(); return nil }); err != nil || n != c.rows.Len() || owners != c.rows.Owners.Len() {
			t.Errorf("%d rows, %d owners, %v", n, owners, err)
		}
	}
}

func TestBoundedWriterRefuses(t *testing.T) {
	one := func() int { return 1 }
	w := NewBoundedWriter(new(bytes.Buffer), ownergraph.Int64, ownergraph.Int64, false)
	if w.Write(makeRows(ownergraph.Int64, ownergraph.String, 0, 1, one)) == nil {
		t.Error("other types were written")
	}
	if err := w.Write(makeRows(ownergraph.Int64, ownergraph.Int64, 5, 3, one)); err != nil {
		t.Error(err)
	}
	if w.Write(makeRows(ownergraph.Int64, ownergraph.Int64, 9, 1, one)) == nil {
		t.Error("a gap was written")
	}
	full := NewBoundedWriter(fullDisk{}, ownergraph.Int64, ownergraph.Int64, false)
	err := full.Write(makeRows(ownergraph.Int64, ownergraph.Int64, 0, 10, one))
	if err = errors.Join(err, full.Close()); !errors.Is(err, errFull) {
		t.Errorf("on a full disk: %v", err)
	}
}

type fullDisk struct{}

var errFull = errors.New("full")

func (fullDisk) Write([]byte) (int, error) { return 0, errFull }

// TestBoundedFaults has tables that no BoundedWriter writes.
func TestBoundedFaults(t *testing.T) {
	type row = boundedRow[int64, int64]
	file := func(rows any) []byte {
		var b bytes.Buffer
		var err error
		switch rows := rows.(type) {
		case []row:
			err = parquet.Write(&b, rows)
		case []boundedRow[string, string]:
			err = parquet.Write(&b, rows)
		case []struct {
			Row int64 `parquet:"row"`
		}:
			err = parquet.Write(&b, rows)
		case []struct {
			Row, Example_id float64
			Copies          int32
			Owners          []int64
		}:
			err = parquet.Write(&b, rows)
		case []struct {
			Row        int64   `parquet:"row"`
			Example_id int64   `parquet:"example_id"`
			Copies     string  `parquet:"copies"`
			Owners     []int64 `parquet:"owners"`
		}:
			err = parquet.Write(&b, rows)
		default:
			t.Fatalf("%T", rows)
		}
		if err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	for _, c := range []struct {
		about string
		b     []byte
		want  string
	}{
		{"gap", file([]row{{0, 5, 1, nil}, {2, 6, 1, nil}}), "row group 1: row: rows are not numbered"},
		{"other first row", file([]row{{1, 5, 1, nil}}), "row group 1: row: rows are not numbered"},
		{"no copies", file([]row{{0, 5, 0, nil}}), "row group 1: copies: must be at least 1"},
		{"negative copies", file([]row{{0, 5, math.MinInt32, nil}}), "row group 1: copies: must be at least 1"},
		{"an example twice", file([]row{{0, 5, 1, nil}, {1, 5, 1, nil}}), "row group 1: example_id: the ids must ascend"},
		{"empty id", file([]boundedRow[string, string]{{0, "", 1, nil}}), "row group 1: example_id: an empty id"},
		{"long owner", file([]boundedRow[string, string]{{0, "a", 1, []string{strings.Repeat("S", 256)}}}), "row group 1: owners: a string of more than 255"},
		{"columns missing", file([]struct {
			Row int64 `parquet:"row"`
		}{{0}}), "row: the columns must be"},
		{"copies are text", file([]struct {
			Row        int64   `parquet:"row"`
			Example_id int64   `parquet:"example_id"`
			Copies     string  `parquet:"copies"`
			Owners     []int64 `parquet:"owners"`
		}{{0, 1, "1", nil}}), "copies: has another type"},
		{"no Parquet", []byte("this is no Parquet file"), "corrupt"},
		{"nothing", nil, "corrupt"},
	} {
		_, _, err := readPart(c.b, 0, true, 100)
		if !errors.Is(err, ErrTable) || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "SSS") {
			t.Errorf("%s: got %v, want %q", c.about, err, c.want)
		}
	}
}

// TestDamagedBoundedTable changes every byte: rows are read as many as there were, or the part is
// refused.
func TestDamagedBoundedTable(t *testing.T) {
	b := writePart(t, makeRows(ownergraph.String, ownergraph.Int64, 0, 20, func() int { return 2 }), 20)
	for i := range b {
		for _, x := range []byte{1, 0x80} {
			c := bytes.Clone(b)
			c[i] ^= x
			_, rows, err := readPart(c, 0, true, 7)
			if err != nil && !errors.Is(err, ErrTable) || err == nil && len(rows) != 20 {
				t.Fatalf("byte %d changed: %d rows, %v", i, len(rows), err)
			}
		}
		if _, _, err := readPart(b[:i], 0, true, 7); err == nil {
			t.Fatalf("%d of %d bytes were read", i, len(b))
		}
	}
}

func TestBoundedEachStops(t *testing.T) {
	b := writePart(t, makeRows(ownergraph.Int64, ownergraph.Int64, 0, 20, func() int { return 2 }), 20)
	p := must.Get(OpenBoundedPart(bytes.NewReader(b), int64(len(b))))(t)
	stop := errors.New("stop")
	if err := p.Each(0, true, 5, func(*ownergraph.Rows) error { return stop }); err != stop {
		t.Errorf("got %v, want the caller's error", err)
	}
}

func FuzzBoundedTable(f *testing.F) {
	for _, e := range idTypes {
		f.Add(writePart(f, makeRows(e, ownergraph.Int64, 0, 5, func() int { return 2 }), 5))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, _, err := readPart(b, 0, true, 3)
		if err != nil && !errors.Is(err, ErrTable) {
			t.Fatalf("%v is no ErrTable", err)
		}
	})
}

// TestOpenBounded writes a folder of parts and reads it, then spoils it.
func TestOpenBounded(t *testing.T) {
	dir := t.TempDir() + "/bounded"
	write := func(parts []*ownergraph.Rows, names ...string) {
		t.Helper()
		must.Do(t, os.RemoveAll(dir))
		stage := must.Get(Begin(dir, false))(t)
		ix := Index{Format: BoundedFormat}
		ix.Params, ix.ParamsSHA256, _ = Params(struct{}{})
		told := ownergraph.Summary{}
		for _, r := range parts {
			told.Kept += int64(r.Len())
		}
		ix.Facts, _ = json.Marshal(told)
		for i, r := range parts {
			name := BoundedPartName(i)
			if i < len(names) {
				name = names[i]
			}
			f := must.Get(stage.Write(name, func(w io.Writer) error { _, err := w.Write(writePart(t, r, 10)); return err }))(t)
			ix.Files = append(ix.Files, f)
		}
		must.Do(t, stage.Publish(ix))
	}
	one := func() int { return 1 }
	const i64, str = ownergraph.Int64, ownergraph.String
	write([]*ownergraph.Rows{makeRows(str, i64, 0, 30, one), makeRows(str, i64, 30, 12, one)})
	b := must.Get(OpenBounded(t.Context(), dir))(t)
	want := []BoundedFile{{BoundedPartName(0), 0, 30}, {BoundedPartName(1), 30, 12}}
	if b.Rows != 42 || b.ExampleType != str || b.OwnerType != i64 || !slices.Equal(b.Parts, want) {
		t.Errorf("got %+v", b)
	}
	next := int64(0)
	for _, p := range b.Parts {
		err := p.Each(t.Context(), dir, false, 7, func(r *ownergraph.Rows) error {
			if r.First != next {
				t.Errorf("rows from %d, want %d", r.First, next)
			}
			next += int64(r.Len())
			encoded, err := r.AppendBinary(nil)
			return errors.Join(err, new(ownergraph.Rows).UnmarshalBinary(encoded))
		})
		if err != nil {
			t.Error(err)
		}
	}
	if next != 42 {
		t.Errorf("%d rows", next)
	}
	must.Fail(t, "with another first row", "part-00001.parquet: bounded table: row group 1: row")((BoundedFile{BoundedPartName(1), 29, 12}).Each(t.Context(), dir, false, 7, func(*ownergraph.Rows) error { return nil }))
	must.Fail(t, "another number of rows", "has 12 rows, and the index says 13")((BoundedFile{BoundedPartName(1), 30, 13}).Each(t.Context(), dir, false, 7, func(*ownergraph.Rows) error { return nil }))

	write([]*ownergraph.Rows{makeRows(str, i64, 0, 30, one), makeRows(i64, i64, 30, 12, one)})
	must.Fail(t, "types that differ", "other types")(OpenBounded(t.Context(), dir))
	write([]*ownergraph.Rows{makeRows(i64, i64, 0, 3, one)}, "part-00001.parquet")
	must.Fail(t, "a part missing", "where part-00000.parquet is expected")(OpenBounded(t.Context(), dir))
}

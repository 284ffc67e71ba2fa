package graphio_test

import (
	"bytes"
	"compress/gzip"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
	"github.com/parquet-go/parquet-go"

	"minsep/internal/graphio"
	"minsep/internal/must"
)

// repeated is text that repeats a line, compressed.
func repeated(t *testing.T, by, line string, times int) []byte {
	t.Helper()
	var b bytes.Buffer
	var w io.WriteCloser = gzip.NewWriter(&b)
	if by == "zstd" {
		var err error
		if w, err = zstd.NewWriter(&b); err != nil {
			t.Fatal(err)
		}
	}
	block := strings.Repeat(line, 1<<16)
	for left := times; left > 0; left -= 1 << 16 {
		must.Get(io.WriteString(w, block[:min(left, 1<<16)*len(line)]))(t)
	}
	must.Do(t, w.Close())
	return b.Bytes()
}

// TestDenseFiles: a small file that stands for more edges than its size allows is refused
// by its name, before it takes memory; so are several of which each stands for fewer. Read is by
// splits, as workers do, and Load is into memory.
func TestDenseFiles(t *testing.T) {
	var deltas bytes.Buffer
	type row struct {
		Example int64 `parquet:"example_id,delta,zstd"`
		Owner   int64 `parquet:"owner_id,delta,zstd"`
	}
	w := parquet.NewGenericWriter[row](&deltas)
	rows := make([]row, 1<<16)
	for n := int64(0); n < 6*int64(len(rows)); n += int64(len(rows)) {
		for i := range rows {
			rows[i] = row{n + int64(i), n + int64(i)}
		}
		must.Get(w.Write(rows))(t)
	}
	must.Do(t, w.Close())
	if n, err := readAll(t, deltas.Bytes()); n != 6<<16 || err != nil {
		t.Errorf("edges of numbers that follow each other: %d are read, %v", n, err)
	}
	defer graphio.SetFreeUnits(1 << 18)()
	many := repeated(t, "gzip", "1,1\n", 3<<16)
	for _, c := range []struct {
		about, name string
		content     []byte
		files       int
		opens       bool // only the reading sees it
		reads       bool // each file by itself is good
	}{
		{"one edge", "g.csv.gz", repeated(t, "gzip", "1,1\n", 5<<16), 1, true, false},
		{"one line of lists", "g.ndjson.zst", repeated(t, "zstd", `{"example_id":1,"owners":[1,2,3,4,5,6,7,8]}`+"\n", 1<<16), 1, true, false},
		{"long strings", "g.csv.zst", repeated(t, "zstd", "1,"+strings.Repeat("a", 250)+"\n", 1<<16), 1, true, false},
		{"deltas", "g.parquet", deltas.Bytes(), 1, false, false},
		{"two files", "g.csv.gz", many, 2, true, true},
	} {
		var paths []string
		for range c.files {
			paths = append(paths, write(t, t.TempDir(), c.name, c.content))
		}
		source, err := graphio.Open(t.Context(), paths, graphio.Options{Header: map[bool]string{true: "no"}[c.about == "long strings"]})
		if (err == nil) != c.opens {
			t.Fatalf("%s: it opens with %v", c.about, err)
		}
		if err != nil {
			mustSayDense(t, c.about, paths[0], err)
			continue
		}
		edges := 0
		if err := source.Read(t.Context(), func(b *graphio.Batch) error { edges += b.Len(); return nil }); c.reads && err != nil {
			t.Errorf("%s: reading ends with %v", c.about, err)
		} else if !c.reads {
			mustSayDense(t, c.about, paths[0], err)
		}
		if most := 5 << 16; !c.reads && edges > most {
			t.Errorf("%s: %d edges were read before", c.about, edges)
		}
		_, err = source.Load(t.Context())
		name := paths[0]
		if c.reads {
			name = "--graph"
		}
		mustSayDense(t, c.about+", loaded", name, err)
	}
}

// readAll counts the edges of a Parquet file.
func readAll(t *testing.T, file []byte) (edges int, err error) {
	t.Helper()
	source, err := graphio.Open(t.Context(), []string{write(t, t.TempDir(), "g.parquet", file)}, defaults)
	if err != nil {
		return 0, err
	}
	return edges, source.Read(t.Context(), func(b *graphio.Batch) error { edges += b.Len(); return nil })
}

func mustSayDense(t *testing.T, about, name string, err error) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), name) || !strings.Contains(err.Error(), "stands for so much more than it stores") {
		t.Errorf("%s: %v", about, err)
	}
}

package graphio_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"slices"
	"strings"
	"testing"

	"minsep/internal/graphio"
)

// memory is a file system of one file.
type memory []byte

type memoryFile struct{ *bytes.Reader }

func (memoryFile) Close() error           { return nil }
func (f memoryFile) Size() int64          { return f.Reader.Size() }
func (memoryFile) Stamp() (string, error) { return "", nil }

func (m memory) Open(context.Context, string) (graphio.File, error) {
	return memoryFile{bytes.NewReader(m)}, nil
}
func (memory) Expand(_ context.Context, path string) ([]string, error) { return []string{path}, nil }

// readMemory reads a file that is in memory.
func readMemory(name string, b []byte, o graphio.Options) (edges []edge, err error) {
	o.FS = memory(b)
	src, err := graphio.Open(context.Background(), []string{name}, o)
	if err != nil {
		return nil, err
	}
	err = src.Read(context.Background(), func(b *graphio.Batch) error {
		for i := range b.Examples.Len() {
			e := edge{example: b.Examples.Format(i)}
			if !b.SingleOwner {
				e.owner = b.Owners.Format(i)
			}
			edges = append(edges, e)
		}
		return nil
	})
	return edges, err
}

// FuzzCSV: what encoding/csv reads is read the same, and what it refuses is refused.
func FuzzCSV(f *testing.F) {
	for _, s := range []string{"a,b\n", "a,b\r\n\"c\",\"d\"\"\ne\"\n", "\"a\n\",b", "a\"b,c", "\"a\"b,c", "a,b\r", "\n\n\r\n,\n", "\"", "\xef\xbb\xbfa,b", "a,b\n1,2\n3,4\n5"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		o := graphio.Options{Format: graphio.CSV, Header: "no", IDType: "string"}
		got, err := readMemory("f.csv", b, o)
		var f *graphio.Fault
		if err != nil && !errors.As(err, &f) {
			t.Fatalf("%v is no Fault", err)
		}
		if bytes.HasPrefix(b, []byte("\xef\xbb\xbf")) || bytes.HasPrefix(b, []byte("\x1f\x8b")) || bytes.HasPrefix(b, []byte("\x28\xb5\x2f\xfd")) {
			return
		}
		for i := range got { // encoding/csv folds line ends in quotes
			got[i] = edge{strings.ReplaceAll(got[i].example, "\r\n", "\n"), strings.ReplaceAll(got[i].owner, "\r\n", "\n")}
		}
		records, refused := csv.NewReader(bytes.NewReader(b)).ReadAll()
		if err == nil && refused != nil {
			t.Fatalf("read %q, which encoding/csv refuses: %v", got, refused)
		}
		if err != nil {
			return
		}
		var want []edge
		for _, r := range records {
			e := edge{example: r[0]}
			if len(r) > 1 {
				e.owner = r[1]
			}
			want = append(want, e)
		}
		if !slices.Equal(got, want) {
			t.Fatalf("got %q, want %q", got, want)
		}
	})
}

// FuzzParquet: any bytes are read or refused with a Fault.
func FuzzParquet(f *testing.F) {
	g := graph{false, true, []edge{{"x1", "1"}, {"x1", "2"}, {"x2", "3"}}}
	for name, format := range formats {
		if strings.HasSuffix(name, "parquet") {
			f.Add(format(g))
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		_, err := readMemory("f.parquet", b, defaults)
		var fault *graphio.Fault
		if err != nil && !errors.As(err, &fault) {
			t.Fatalf("%v is no Fault", err)
		}
	})
}

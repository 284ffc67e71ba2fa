package graphio_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"minsep/internal/graphio"
	"minsep/internal/must"
)

// TestLoad reads a graph of many splits into memory. The first split with a fault tells its
// faults, whichever is read first.
func TestLoad(t *testing.T) {
	for _, faulty := range []bool{false, true} {
		var text bytes.Buffer
		for i := range 3000 {
			if faulty && i >= 1000 && i%500 == 7 {
				text.WriteString("none\t1\n")
			}
			fmt.Fprintf(&text, "%d\t%d\n", i/2, i%7)
		}
		path := filepath.Join(t.TempDir(), "g.tsv")
		must.Do(t, os.WriteFile(path, text.Bytes(), 0o600))
		for range 20 {
			src := must.Get(graphio.Open(t.Context(), []string{path}, graphio.Options{SplitBytes: 500}))(t)
			g, err := src.Load(t.Context())
			if faulty {
				if err == nil || !strings.Contains(err.Error(), "line 1008") || strings.Contains(err.Error(), "line 1509") {
					t.Fatalf("got %v", err)
				}
				continue
			}
			must.Do(t, err)
			if g.Examples.Len() != 1500 || g.Owners.Len() != 7 || g.Edges() != 3000 {
				t.Fatalf("%d examples, %d owners, %d edges", g.Examples.Len(), g.Owners.Len(), g.Edges())
			}
		}
	}
}

// TestLoadSingleOwners: each example is its own owner.
func TestLoadSingleOwners(t *testing.T) {
	path := filepath.Join(t.TempDir(), "list.csv")
	must.Do(t, os.WriteFile(path, []byte("example_id\nx\ny\nx\n"), 0o600))
	src := must.Get(graphio.Open(t.Context(), []string{path}, defaults))(t)
	g := must.Get(src.Load(t.Context()))(t)
	if g.Owners.Len() != 2 || g.Owners.Format(1) != "y" || g.DuplicateEdges != 1 {
		t.Errorf("%d owners, %d equal edges", g.Owners.Len(), g.DuplicateEdges)
	}
}

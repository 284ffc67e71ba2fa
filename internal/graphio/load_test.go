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

// TestLoad reads a graph of many files into memory. The first file with a fault tells its faults,
// whichever is read first.
func TestLoad(t *testing.T) {
	for _, faulty := range []bool{false, true} {
		dir := t.TempDir()
		for file := range 6 {
			var text bytes.Buffer
			for i := file * 500; i < file*500+500; i++ {
				if faulty && file >= 2 && i%500 == 7 {
					text.WriteString("none\t1\n")
				}
				fmt.Fprintf(&text, "%d\t%d\n", i/2, i%7)
			}
			must.Do(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(file, ".tsv")), text.Bytes(), 0o600))
		}
		for range 20 {
			src := must.Get(graphio.Open(t.Context(), []string{dir}, defaults))(t)
			g, err := src.Load(t.Context())
			if faulty {
				if err == nil || !strings.Contains(err.Error(), "2.tsv: line 8") || strings.Contains(err.Error(), "3.tsv") {
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

package manifestio_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/graphio"
	"minsep/internal/transforms/manifestio"
)

// The edges of a graph, as the lines that edgeLines makes of them, are collected in a file and read
// by the launching program.
func Example() {
	dir, err := os.MkdirTemp("", "graph")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	graph := filepath.Join(dir, "graph.csv")
	if err := os.WriteFile(graph, []byte("example_id,owner_id\n1,7\n2,7\n4,8\n"), 0o600); err != nil {
		fmt.Println(err)
		return
	}
	source, err := graphio.Open(context.Background(), []string{graph}, graphio.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}

	p, s := beam.NewPipelineWithRoot()
	edges, err := manifestio.ReadGraph(s, source.Splits())
	if err != nil {
		fmt.Println(err)
		return
	}
	manifestio.Collect(s, dir, "edges.json", beam.ParDo(s, edgeLines, edges))
	if _, err := beam.Run(context.Background(), "direct", p); err != nil {
		fmt.Println(err)
		return
	}
	err = manifestio.Collected(dir, "edges.json", func(line []byte) error {
		fmt.Printf("%s\n", line)
		return nil
	})
	fmt.Println(err)
	// Output:
	// 1 7
	// 2 7
	// 4 8
	// <nil>
}

package graphio_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"minsep/internal/graphio"
)

func ExampleOpen() {
	dir, err := os.MkdirTemp("", "graph")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "papers.csv")
	if err := os.WriteFile(path, []byte("paper,author\n17,ada\n17,emmy\n23,ada\n"), 0o600); err != nil {
		panic(err)
	}

	ctx := context.Background()
	src, err := graphio.Open(ctx, []string{path}, graphio.Options{ExampleColumn: "paper", OwnerColumn: "author"})
	if err != nil {
		panic(err)
	}
	fmt.Println("examples are", src.ExampleType, "and owners", src.OwnerType)
	for _, split := range src.Splits() { // each may be read on another machine
		err := split.Read(ctx, nil, func(b *graphio.Batch) error {
			for i := range b.Examples.Len() {
				fmt.Println(b.Examples.Format(i), b.Owners.Format(i))
			}
			return nil
		})
		if err != nil {
			panic(err)
		}
	}
	// Output:
	// examples are int64 and owners string
	// 17 ada
	// 17 emmy
	// 23 ada
}

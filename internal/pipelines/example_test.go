package pipelines_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"minsep/internal/inspect"
	"minsep/internal/pipelines"
	"minsep/internal/stream"
	"minsep/sampling"
)

// Batches of 1000 numbered examples, each its own owner, and what inspection says of the run
// directory.
func ExampleForm() {
	dir, err := os.MkdirTemp("", "run")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	key, run := filepath.Join(dir, "key"), filepath.Join(dir, "run")
	if err := stream.CreateKeyFile(key); err != nil {
		fmt.Println(err)
		return
	}
	form := pipelines.Form{Examples: 1000, Params: sampling.Params{Scheme: "b-min-sep", Steps: 100, MinSep: 10, BatchSize: 20}}
	formed, err := form.Run(context.Background(), pipelines.Options{KeyFile: key, Out: run})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Printf("%d examples, expected batch size %.3g, %d shard\n", formed.Examples, formed.ExpectedBatchSize, formed.Shards)

	found, err := inspect.Directory(context.Background(), run)
	fmt.Println(inspect.Judge(found).State, err)
	// Output:
	// 1000 examples, expected batch size 20, 1 shard
	// not certified <nil>
}

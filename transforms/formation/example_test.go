package formation_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/manifest"
	"minsep/sampling"
	"minsep/sampling/stream"
	"minsep/transforms/formation"
	"minsep/transforms/manifestio"
)

func ExampleRange() {
	dir, err := os.MkdirTemp("", "batches")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	key := filepath.Join(dir, "key")
	if err := stream.CreateKeyFile(key); err != nil {
		fmt.Println(err)
		return
	}
	spec := sampling.Spec{BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 100, MinSep: 10, WarmStart: true}}
	_, params, err := manifest.Params(spec)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, s := beam.NewPipelineWithRoot()
	files, err := formation.Range(s, formation.Config{
		Spec: spec, Examples: 1000, Shards: 2, Dir: dir, KeyURI: key, RunID: stream.NewRunID(), Params: params,
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	manifestio.Collect(s, dir, "files.json", files)
	if _, err := beam.Run(context.Background(), "direct", p); err != nil {
		fmt.Println(err)
		return
	}
	list, err := manifestio.CollectedFiles(dir, "files.json")
	for _, f := range list {
		fmt.Println(f.Name)
	}
	fmt.Println(err)
	// Output:
	// indptr-00000-of-00002.npy
	// indptr-00001-of-00002.npy
	// rows-00000-of-00002.npy
	// rows-00001-of-00002.npy
	// <nil>
}

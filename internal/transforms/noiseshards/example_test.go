package noiseshards_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/stream"
	"minsep/internal/transforms/manifestio"
	"minsep/internal/transforms/noiseshards"
	"minsep/mechanism"
)

// Noise of 100 steps and 5 coordinates, in two shards of coordinates with 50 steps a file.
func Example() {
	dir, err := os.MkdirTemp("", "noise")
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
	root, err := stream.ReadKeyFile(key)
	if err != nil {
		fmt.Println(err)
		return
	}
	strategy, err := mechanism.BSR(100, 4)
	if err != nil {
		fmt.Println(err)
		return
	}
	recipe, err := noise.NewRecipe(noise.Config{Strategy: strategy, Coordinates: 5, NoiseMultiplier: 0.75, ClipNorm: 1})
	if err != nil {
		fmt.Println(err)
		return
	}
	recipe.Bind(root, stream.NewRunID(), key)
	recipe.Draw()
	written, err := noiseshards.WriteRecipe(dir, recipe)
	if err != nil {
		fmt.Println(err)
		return
	}

	p, s := beam.NewPipelineWithRoot()
	files, err := noiseshards.Write(s, noiseshards.Config{
		Dir: dir, RecipeSHA256: written.SHA256, KeyURI: key, Shards: 2, DType: manifest.DFloat32, StepsPerFile: 50,
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
		fmt.Println(f.Name, f.Bytes)
	}
	fmt.Println(err)
	// Output:
	// shard-00000-of-00002/steps-000000-000049.npy 728
	// shard-00000-of-00002/steps-000050-000099.npy 728
	// shard-00001-of-00002/steps-000000-000049.npy 528
	// shard-00001-of-00002/steps-000050-000099.npy 528
	// <nil>
}

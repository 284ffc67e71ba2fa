// Package noiseshards writes the correlated noise of a training run to files, shard by shard, on
// any Beam runner.
//
// # Behavior
//
// Coordinates are split into shards of nearly equal size ([manifest.NoiseRange]), steps into files
// of [Config.StepsPerFile]: shard-00000-of-00064/steps-000000-000999.npy holds noise [steps,
// coordinates] in C order, float32 or float64, of the same values. A worker makes the noise of a
// shard from step 0 to the last on all of its processors and writes the files itself, each whole or
// not at all, with mode 0600 in folders of mode 0700. Through the pipeline travel names,
// sizes and hashes.
//
// A task that is killed or repeated keeps the files that a task of the same shard finished, and makes
// the others: after each file it notes the hashes of the finished ones. Files are kept only if their
// contents have the noted hashes. Of a strategy whose rows need earlier rows, the noise of kept files
// is made again and dropped. The notes have the name of a temporary file, which publishing the index
// removes.
//
// # Determinism
//
// The bytes depend on the recipe and the root key only. The same values come out for every number
// of shards and of steps a file, every runner, and every way of stopping and going on.
//
// The recipe is in the same folder, which every worker must be able to read and write, as
// recipe.json; the key is read by each worker from its file. Neither the noise nor the key is part
// of the pipeline graph.
package noiseshards

import (
	"bytes"
	"context"
	"crypto/sha256"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/internal/stream"
	"minsep/internal/transforms/keyref"
	"minsep/internal/transforms/manifestio"
	"minsep/internal/transforms/progress"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[shardsFn]())
	beam.RegisterDoFn(reflect.TypeFor[writeFn]())
	register.Emitter1[int]()
	register.Emitter1[string]()
}

// Config says which files to write where. It travels in the pipeline graph.
type Config struct {
	Dir          string          // the folder of noise, which holds the recipe
	RecipeSHA256 manifest.Digest // SHA-256 of the recipe's file, as [WriteRecipe] returns it
	KeyURI       string          // where each worker reads the root key
	Shards       int             // 1 to the number of coordinates
	DType        manifest.DType  // float32 or float64
	StepsPerFile int             // 0 for the default, 1000
}

func (c Config) stepsPerFile() int {
	if c.StepsPerFile == 0 {
		return manifest.DefaultStepsPerFile
	}
	return c.StepsPerFile
}

// Validate returns every fault of c that does not need the recipe.
func (c Config) Validate() error {
	check := param.Checker{}
	check.Require(c.Dir != "", "folder", `""`, "must be named")
	check.Requiref(
		c.Shards >= 1 && c.Shards <= manifest.MaxNoiseShards,
		"shards",
		c.Shards,
		"must be 1 to %d", manifest.MaxNoiseShards,
	)
	check.Require(
		c.DType == manifest.DFloat32 || c.DType == manifest.DFloat64,
		"dtype",
		c.DType,
		"must be float32 or float64",
	)
	check.AtLeast("steps per file", c.StepsPerFile, 0)
	check.Add(keyref.Ref{KeyURI: c.KeyURI}.Validate())
	return check.Err()
}

// validateFor also returns the faults that depend on the recipe.
func (c Config) validateFor(r *noise.Recipe) error {
	check := param.Checker{}
	check.Add(c.Validate())
	check.Requiref(
		int64(c.Shards) <= r.Params.Coordinates,
		"shards",
		c.Shards,
		"must be at most the coordinates, %d", r.Params.Coordinates,
	)
	return check.Err()
}

// WriteRecipe writes a recipe, which must be bound to its run, into the folder of noise. The file
// is secret, as the folder is.
func WriteRecipe(dir string, r *noise.Recipe) (manifest.File, error) {
	return manifest.WriteFile(dir, manifest.RecipeFile, manifest.SecretFile, r.Write)
}

// maxRecipe bounds a recipe, which holds a strategy, in bytes.
const maxRecipe = 16 << 30

// readRecipe reads the recipe of a folder and compares its digest with want.
func readRecipe(ctx context.Context, dir string, want manifest.Digest) (*noise.Recipe, error) {
	b, err := store.ReadFile(ctx, store.Join(dir, manifest.RecipeFile), maxRecipe)
	if err != nil {
		return nil, err
	}
	if got := manifest.Digest(sha256.Sum256(b)); got != want {
		return nil, &manifest.MismatchError{Name: manifest.RecipeFile, What: "SHA-256"}
	}
	return noise.Read(bytes.NewReader(b))
}

// Facts returns the facts in the folder's index, for a training of the given steps and coordinates.
func (c Config) Facts(steps int, coordinates int64) manifest.NoiseFacts {
	return manifest.NoiseFacts{
		Steps:        steps,
		Coordinates:  coordinates,
		Shards:       c.Shards,
		StepsPerFile: c.stepsPerFile(),
		DType:        c.DType,
	}
}

// Write writes all shards. The recipe must be in the folder already ([WriteRecipe]). It returns a
// PCollection<string> of JSON [manifest.File], one a file.
func Write(s beam.Scope, c Config) (beam.PCollection, error) {
	s = s.Scope("noiseshards.Write")
	if err := c.Validate(); err != nil {
		return beam.PCollection{}, err
	}
	r, err := readRecipe(context.Background(), c.Dir, c.RecipeSHA256)
	if err != nil {
		return beam.PCollection{}, err
	}
	if err := c.validateFor(r); err != nil {
		return beam.PCollection{}, err
	}
	shards := beam.ParDo(s, &shardsFn{Shards: c.Shards}, beam.Impulse(s))
	return beam.ParDo(s, &writeFn{Config: c}, beam.Reshuffle(s, shards)), nil
}

// shardsFn emits the numbers of the shards.
type shardsFn struct{ Shards int }

func (f *shardsFn) ProcessElement(_ []byte, emit func(int)) error {
	for i := range f.Shards {
		emit(i)
	}
	return nil
}

var filesWritten = progress.New("noise files written")

// writeFn writes the files of a shard.
type writeFn struct {
	Config Config

	recipe *noise.Recipe
	key    stream.Key
}

func (f *writeFn) Setup(ctx context.Context) (err error) {
	if f.recipe, err = readRecipe(ctx, f.Config.Dir, f.Config.RecipeSHA256); err != nil {
		return err
	}
	root := keyref.Ref{KeyURI: f.Config.KeyURI, RunID: f.recipe.RunID, Params: f.recipe.ParamsSHA256}
	f.key, err = root.Key(ctx, noise.KeyPurpose)
	return err
}

func (f *writeFn) ProcessElement(ctx context.Context, shard int, emit func(string)) error {
	lo, hi := manifest.NoiseRange(f.recipe.Params.Coordinates, shard, f.Config.Shards)
	g, err := f.recipe.Generator(f.key, lo, hi)
	if err != nil {
		return err
	}
	g.Add(f.recipe.StepBytes...)
	w := &shardWriter{config: f.Config, shard: shard, steps: f.recipe.Params.Steps, generator: g,
		done: func() { filesWritten.Add(ctx, 1) }}
	files, err := w.run(ctx)
	if err != nil {
		return err
	}
	return manifestio.EmitFiles(files, emit)
}

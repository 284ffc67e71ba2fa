package pipelines

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/manifest"
	"minsep/mechanism/noise"
	"minsep/registry"
	"minsep/sampling/stream"
	"minsep/stages"
	"minsep/transforms/progress"
)

// NoiseStreamFormat is the format of a stream of noise.
const NoiseStreamFormat = "minsep-noise-stream/1"

// noiseStreamHead is the size of a stream's head in bytes.
const noiseStreamHead = 4096

// streamGarbage is the memory of a stream beyond its first state: pieces of rows on their way, and
// garbage.
const streamGarbage = 16 << 20

// NoiseStreamHead is the head of a stream of noise: a JSON object, spaces, and a line feed, 4096
// bytes in all. The rows of the steps [FromStep, Steps) follow it, coordinates [First, End) of
// each, in little endian, and nothing else.
type NoiseStreamHead struct {
	Format       string          `json:"format"`
	RunID        stream.RunID    `json:"run_id"`
	RecipeSHA256 manifest.Digest `json:"recipe_sha256"` // of recipe.json, as the index of the noise has it
	DType        manifest.DType  `json:"dtype"`         // float32 or float64
	FromStep     int             `json:"from_step"`     // 0 to Steps
	Steps        int             `json:"steps"`         // of the training run
	Coordinates  int64           `json:"coordinates"`   // of a gradient
	Shard        int             `json:"shard"`         // 0 to Shards-1
	Shards       int             `json:"shards"`
	First        int64           `json:"first"` // coordinate of the shard
	End          int64           `json:"end"`   // coordinate after the shard's last
}

// NoiseStream writes the noise of a run directory with a recipe to a stream: rows of a shard from a
// step on, as fast as they are made. The values are the same bits as in files of noise. It writes
// no file except the records of the run id.
//
// The rules are as for [Noise]: batches, certificate and recipe in the directory must be of one
// training run and of the root key, and the run id must serve this training run in this directory.
type NoiseStream struct {
	FromStep int    // 0 to the number of steps
	Shard    int    // 0 to Shards-1
	Shards   int    // ranges of coordinates, as manifest.NoiseRange has them; at least 1
	DType    string // float32 or float64; "" for float32 where it holds the noise on its grid, else float64
	Guarded  bool   // a guard keeps the noise of each step to one sum: nothing is said of uses before

	// Checkpoint is a folder for checkpoints, "" for none: of noise that needs the noise of all steps
	// before it, the state is kept there at every multiple of CheckpointSteps, the last two for each
	// shard. A later stream, of FromStep or more, begins from the newest of them that is not after
	// its first step. They are as secret as the noise.
	Checkpoint      string
	CheckpointSteps int // at least 1 where there is a Checkpoint

	// Shared is memory for the rows; nil if they are to be written to the stream.
	Shared *NoiseMemory
}

// Validate reports every fault that can be seen without the recipe.
func (n NoiseStream) Validate() error {
	c := param.Checker{Package: "pipelines"}
	c.AtLeast("from-step", n.FromStep, 0)
	c.Require(n.Shards >= 1 && n.Shards <= manifest.MaxNoiseShards && 0 <= n.Shard && n.Shard < n.Shards, "shard", fmt.Sprintf("%d/%d", n.Shard, n.Shards),
		fmt.Sprintf("must be i/N, with N from 1 to %d and i from 0 to N-1", manifest.MaxNoiseShards))
	_, known := stages.DTypes[n.DType]
	c.Require(known, "dtype", n.DType, "must be float32 or float64")
	if n.Checkpoint != "" {
		c.AtLeast("checkpoint-steps", n.CheckpointSteps, 1)
		if err := store.Check(n.Checkpoint); err != nil {
			c.Require(false, "checkpoint", n.Checkpoint, err.Error())
		}
	}
	return c.Err()
}

// Run writes the stream to out. It takes no lock: other hosts read the same directory.
func (n NoiseStream) Run(ctx context.Context, o Options, out io.Writer) (NoiseStreamHead, error) {
	dry := o.DryRun
	o.DryRun = true // takes no lock
	w, err := o.begin(ctx, beginning{stage: n, key: true, looks: true})
	if err != nil {
		return NoiseStreamHead{}, err
	}
	defer w.end()
	w.set.DryRun = dry
	recipe, digest, err := w.recipe(ctx)
	if err != nil {
		return NoiseStreamHead{}, err
	}
	head, err := n.head(recipe, digest)
	if err != nil {
		return head, err
	}
	if n.Shared != nil {
		if err := n.Shared.check(head); err != nil {
			return head, err
		}
	}
	if err := w.mayUse(ctx, recipe); err != nil {
		return head, err
	}
	if err := n.tellUses(ctx, w, head); err != nil || dry {
		return head, err
	}
	s, err := recipe.Stream(recipe.Key(w.root, recipe.RunID), head.First, head.End)
	if err != nil {
		return head, err
	}
	leaveProgram()
	defer limitGarbage(streamGarbage)()
	kept := checkpoints{n, head, s}
	if err := kept.resume(ctx); err != nil {
		return head, err
	}
	err = s.Seek(ctx, n.FromStep, func(step int) {
		progress.Enter("making the noise of the steps before it", "step", int64(step), int64(n.FromStep))
	})
	if err != nil {
		return head, err
	}
	progress.Enter("", "", 0, 0)
	if err := head.write(out); err != nil {
		return head, err
	}
	write := s.Write32
	switch {
	case n.Shared != nil:
		write = n.Shared.writer(s, head)
	case head.DType == manifest.DFloat64:
		write = s.Write64
	}
	for s.Step() < head.Steps {
		s.End = kept.next()
		if err := write(ctx, out); err != nil {
			return head, err
		}
		if err := kept.save(ctx); err != nil {
			return head, err
		}
	}
	return head, nil
}

// tellUses tells the user that a training has taken steps with the noise of the stream already, or
// that another stream has had it. It also records this stream: no guard does.
func (n NoiseStream) tellUses(ctx context.Context, w *work, head NoiseStreamHead) error {
	if n.Guarded || n.FromStep == head.Steps {
		return nil
	}
	const wayOut = "Two sums with the same noise reveal their difference: give each row to the sum that had it before, bit for bit, as after a checkpoint; for another training use minsep run --again"
	records, err := registry.Open(w.root, w.set.KeyFile)
	if err != nil {
		return err
	}
	before, err := records.Streamed(head.RunID, head.First, head.End, w.set.DryRun) // recorded whatever a guard says
	switch {
	case registry.TrainingSteps(ctx, w.set.Out, head.RunID) > n.FromStep:
		w.set.tell("run directory %s: serves a training that has taken step %d, with the noise of this stream. %s", w.set.Out, n.FromStep, wayOut)
	case before:
		w.set.tell("run directory %s: its noise was streamed before. %s", w.set.Out, wayOut)
	}
	return err
}

// head returns the head of the stream. It refuses parameters that the recipe does not allow.
func (n NoiseStream) head(r *noise.Recipe, digest manifest.Digest) (NoiseStreamHead, error) {
	c := param.Checker{Package: "pipelines"}
	c.Require(n.FromStep <= r.Params.Steps, "from-step", n.FromStep, fmt.Sprintf("must be 0 to %d, the steps of the recipe", r.Params.Steps))
	c.Require(int64(n.Shards) <= r.Params.Coordinates, "shard", fmt.Sprintf("%d/%d", n.Shard, n.Shards), fmt.Sprintf("must have at most %d shards, one for each coordinate", r.Params.Coordinates))
	dtype := stages.DTypes[n.DType]
	if n.DType == "" && !r.Float32() {
		dtype = manifest.DFloat64
	}
	c.Require(dtype == manifest.DFloat64 || r.Float32(), "dtype", "float32", fmt.Sprintf("must be float64: a float32 does not hold the noise on the recipe's grid, %v", r.Grid()))
	first, end := manifest.NoiseRange(r.Params.Coordinates, n.Shard, n.Shards)
	return NoiseStreamHead{NoiseStreamFormat, r.RunID, digest, dtype, n.FromStep, r.Params.Steps, r.Params.Coordinates, n.Shard, n.Shards, first, end}, c.Err()
}

// write writes the head, filled up with spaces to its size.
func (h NoiseStreamHead) write(out io.Writer) error {
	b, err := json.Marshal(h)
	if err != nil {
		return err
	}
	b = append(b, bytes.Repeat([]byte{' '}, noiseStreamHead-1-len(b))...)
	_, err = out.Write(append(b, '\n'))
	return err
}

// recipe reads the recipe of the finished noise in the run directory.
func (w *work) recipe(ctx context.Context) (*noise.Recipe, manifest.Digest, error) {
	dir := store.Join(w.dir.path, manifest.NoiseFolder)
	missing := func(rule string) error {
		return &ParamError{Package: "pipelines", Param: "out", Value: w.set.Out, Rule: rule + ": make it with minsep noise, with --recipe-only for no files, or with minsep run"}
	}
	ix, err := manifest.Read(ctx, dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, manifest.Digest{}, missing("has no recipe of noise")
	case err != nil:
		return nil, manifest.Digest{}, err
	}
	for _, f := range ix.Files {
		if f.Name != manifest.RecipeFile {
			continue
		}
		if err := f.Check(ctx, dir); err != nil {
			return nil, f.SHA256, err
		}
		r, err := stages.ReadRecipe(ctx, store.Join(dir, manifest.RecipeFile))
		if err == nil && (r.RunID != ix.RunID || r.ParamsSHA256 != ix.ParamsSHA256) {
			err = &manifest.MismatchError{Name: manifest.RecipeFile, What: "run id or parameters"}
		}
		return r, f.SHA256, err
	}
	return nil, manifest.Digest{}, missing("has noise without a recipe")
}

// mayUse refuses a recipe of another training run than the directory's, or with a run id that
// serves another one. It records that the run id serves this one.
func (w *work) mayUse(ctx context.Context, r *noise.Recipe) error {
	training, err := w.here.Training()
	if err != nil {
		return err
	}
	if training.Known() && r.Params.Training != training {
		return stages.Disagrees(store.Join(w.dir.path, manifest.NoiseFolder), []string{"its recipe is for other examples or another sampler"}, stages.NewDirectory)
	}
	if err := stages.Certified(w.here.Certificate(), w.set.Out, r); err != nil {
		return err
	}
	if _, err := w.registered(ctx, registry.Record{ParamsSHA256: r.ParamsSHA256, Training: r.Params.Training}); err != nil || w.set.DryRun {
		return err
	}
	run, err := manifest.ReadRun(ctx, w.dir.path)
	if err != nil {
		return err
	}
	return w.claim(run, registry.Record{ParamsSHA256: r.ParamsSHA256, Training: r.Params.Training})
}

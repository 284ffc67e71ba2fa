package pipelines

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"

	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/param"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/stream"
	"minsep/internal/transforms/progress"
)

// NoiseStreamFormat is the format of a stream of noise.
const NoiseStreamFormat = "minsep-noise-stream/2"

// noiseStreamHead is the size of a stream's head in bytes.
const noiseStreamHead = 4096

// StreamAhead is the number of later steps whose bytes a stream waits for before it makes a row: it
// makes so many rows of some coordinates at a time, which is faster.
const StreamAhead = 32

// streamGarbage is the memory of a stream beyond its state and the rows on their way.
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
// step on, as fast as they are made. It writes no file but checkpoints.
//
// The trainer gives the bytes of the steps, 16 random ones for each, which are part of the key of the
// step's white row: first those of the steps before FromStep, as the training has taken them, then
// those of the steps that follow. The row of step t is written once the bytes of the steps before
// t + 1 + [StreamAhead] are there. Other bytes make other noise: so a training that begins anew, or
// goes on from a checkpoint, draws new ones for every step from there on, and no row of noise meets
// two sums, whatever was copied.
//
// The rules are as for [Noise]: batches, certificate and recipe in the directory must be of one
// training run and of the root key.
type NoiseStream struct {
	FromStep int    `flag:"from-step" help:"with --stream: the first step to write, counted from 0"` // 0 to the number of steps
	Shard    int    // 0 to Shards-1
	Shards   int    // ranges of coordinates, as manifest.NoiseRange has them; at least 1
	DType    string // float32 or float64; "" for float32 where it holds the noise on its grid, else float64

	// Checkpoint is a folder for checkpoints, "" for none: of noise that needs the noise of all steps
	// before it, the state is kept there at every multiple of CheckpointSteps, the last two for each
	// shard. A later stream whose bytes of the steps before are the same begins from the newest of
	// them that is not after its first step; other ones are of no use to it. They are as secret as
	// the noise.
	Checkpoint      string `flag:"checkpoint" help:"with --stream: folder for checkpoints, from which a later stream of the same steps goes on; they are secret (default: none)"`
	CheckpointSteps int    `flag:"checkpoint-steps" help:"with --stream: number of steps from one checkpoint to the next; the last two checkpoints are kept"` // at least 1 where there is a Checkpoint
}

// Validate reports every fault that can be seen without the recipe.
func (n NoiseStream) Validate() error {
	c := param.Checker{}
	c.AtLeast("from-step", n.FromStep, 0)
	c.Requiref(
		n.Shards >= 1 && n.Shards <= manifest.MaxNoiseShards && 0 <= n.Shard && n.Shard < n.Shards,
		"shard",
		fmt.Sprintf("%d/%d", n.Shard, n.Shards),
		"must be i/N, with N from 1 to %d and i from 0 to N-1", manifest.MaxNoiseShards,
	)
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

// Run writes the stream to out, with the bytes of the steps from in. It takes no lock: other hosts
// read the same directory.
func (n NoiseStream) Run(ctx context.Context, o Options, in io.Reader, out io.Writer) (NoiseStreamHead, error) {
	o.DryRun = true // takes no lock
	w, err := o.begin(ctx, beginning{stage: n, key: true, looks: true})
	if err != nil {
		return NoiseStreamHead{}, err
	}
	defer w.end()
	recipe, digest, err := w.recipe(ctx)
	if err != nil {
		return NoiseStreamHead{}, err
	}
	head, err := n.head(recipe, digest)
	if err != nil {
		return head, err
	}
	if err := w.here.Agree(); err != nil {
		return head, err
	}
	s, err := recipe.Generator(recipe.Key(w.root, recipe.RunID), head.First, head.End)
	if err != nil {
		return head, err
	}
	if err := head.write(out); err != nil {
		return head, err
	}
	bytes := stepBytes{bufio.NewReader(in), s}
	if err := bytes.readUntil(n.FromStep); err != nil {
		return head, err
	}
	rows := noise.NewBuffer(s, s.Rows(), head.DType == manifest.DFloat64) // allocated before the limit, or the collector never rests
	defer limitGarbage(streamGarbage)()
	kept := checkpoints{n, head, s, w.jobs.log}
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
	for s.Step() < head.Steps {
		s.Until = kept.next()
		if err := bytes.readUntil(min(head.Steps, s.Step()+1+StreamAhead)); err != nil {
			return head, err
		}
		next, err := rows.Next(min(s.Rows(), head.Steps-s.Step()))
		if err == nil {
			_, err = out.Write(next)
		}
		if err != nil {
			return head, err
		}
		if s.Step() == s.Until {
			if err := kept.save(ctx); err != nil {
				return head, err
			}
		}
		if err := ctx.Err(); err != nil {
			return head, err
		}
	}
	return head, nil
}

// stepBytes reads the bytes of steps for a stream of noise.
type stepBytes struct {
	in     io.Reader
	stream *noise.Generator
}

// readUntil reads the bytes of all steps before a step.
func (b stepBytes) readUntil(step int) error {
	for b.stream.Known() < step {
		var bytes noise.StepBytes
		switch _, err := io.ReadFull(b.in, bytes[:]); {
		case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF):
			return param.Fault(
				"stream",
				fmt.Sprintf("bytes of %d steps", b.stream.Known()),
				"must have %d random bytes on standard input for each step, and %d steps ahead of the row that is wanted",
				len(bytes),
				StreamAhead,
			)
		case err != nil:
			return fmt.Errorf("bytes of steps: %w", err)
		}
		b.stream.Add(bytes)
	}
	return nil
}

// head returns the head of the stream. It refuses parameters that the recipe does not allow.
func (n NoiseStream) head(r *noise.Recipe, digest manifest.Digest) (NoiseStreamHead, error) {
	c := param.Checker{}
	c.Requiref(
		n.FromStep <= r.Params.Steps,
		"from-step",
		n.FromStep,
		"must be 0 to %d, the steps of the recipe", r.Params.Steps,
	)
	c.Requiref(
		int64(n.Shards) <= r.Params.Coordinates,
		"shard",
		fmt.Sprintf("%d/%d", n.Shard, n.Shards),
		"must have at most %d shards, one for each coordinate", r.Params.Coordinates,
	)
	dtype := stages.DTypes[n.DType]
	if n.DType == "" && !r.Float32() {
		dtype = manifest.DFloat64
	}
	c.Requiref(
		dtype == manifest.DFloat64 || r.Float32(),
		"dtype",
		"float32",
		"must be float64: a float32 does not hold the noise on the recipe's grid, %v", r.Grid(),
	)
	first, end := manifest.NoiseRange(r.Params.Coordinates, n.Shard, n.Shards)
	return NoiseStreamHead{
		NoiseStreamFormat,
		r.RunID,
		digest,
		dtype,
		n.FromStep,
		r.Params.Steps,
		r.Params.Coordinates,
		n.Shard,
		n.Shards,
		first,
		end,
	}, c.Err()
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
func (w *work) recipe(ctx context.Context) (r *noise.Recipe, digest manifest.Digest, err error) {
	dir, listed := store.Join(w.path, manifest.NoiseFolder), -1
	ix, err := manifest.Read(ctx, dir)
	if err == nil {
		listed = slices.IndexFunc(ix.Files, func(f manifest.File) bool { return f.Name == manifest.RecipeFile })
	}
	if errors.Is(err, fs.ErrNotExist) || err == nil && listed < 0 {
		return nil, digest, param.Fault("out", w.set.Out, "has no recipe of noise: make it with minsep noise, or with minsep run")
	}
	if err != nil {
		return nil, digest, err
	}
	if err := ix.Files[listed].Check(ctx, dir); err != nil {
		return nil, digest, err
	}
	r, err = stages.ReadRecipe(ctx, store.Join(dir, manifest.RecipeFile))
	if err == nil && (r.RunID != ix.RunID || r.ParamsSHA256 != ix.ParamsSHA256) {
		err = &manifest.MismatchError{Name: manifest.RecipeFile, What: "run id or parameters"}
	}
	return r, ix.Files[listed].SHA256, err
}

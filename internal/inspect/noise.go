package inspect

import (
	"bufio"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"

	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/planner"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/strictjson"
)

// stepNoiseSlack is the relative difference that is allowed between the step noise in an index and
// the one computed here: processors and versions round differently.
const stepNoiseSlack = 5e-3

// agree reports whether the step noise in an index equals the one computed here. An index without
// it agrees with any.
func agree(written float64, found *planner.StepNoise) bool {
	return written == 0 || found != nil && math.Abs(written/found.Ratio-1) <= stepNoiseSlack
}

func init() { inspectors["noise"] = inspectNoise }

// inspectNoise re-reads a folder of noise: the recipe, the cover of steps and coordinates, the
// element types and the grid. Whether the values follow the recipe cannot be checked without the
// key.
func inspectNoise(ctx context.Context, dir string, index *manifest.Index, found *Inspection) error {
	recipe, err := stages.ReadRecipe(ctx, store.Join(dir, manifest.RecipeFile))
	if err != nil {
		return err
	}
	found.all.Noise = &recipe.Params
	var described manifest.DescribedNoise
	if err := strictjson.Loose(index.Facts, &described); err != nil {
		return fmt.Errorf("%s: facts: %w", dir, err)
	}
	facts := described.NoiseFacts
	if recipe.Grid() == noise.NoGrid {
		found.Notes = append(found.Notes, stages.FloatingPointOpen)
	}
	agrees := recipe.ParamsSHA256 == index.ParamsSHA256 && recipe.RunID == index.RunID &&
		recipe.Params.Steps == facts.Steps && recipe.Params.Coordinates == facts.Coordinates
	found.check(
		"recipe",
		fmt.Sprintf(
			"the recipe is whole and of the run, the parameters and the size that the index says, with words by %s",
			recipe.Params.Words,
		),
		agrees,
	)

	here, err := stages.ReadPresent(ctx, store.Dir(dir))
	agrees = err == nil && here.Agree() == nil
	found.check(
		"training",
		"the noise is for the examples, the sampler and the strategy of the batches and the certificate beside it, and no less than certified",
		agrees,
	)
	if c := here.Certificate(); agrees && c != nil {
		found.all.stepNoise = planner.StepNoiseOf(c, float64(recipe.Params.NoiseMultiplier))
		found.check(
			"step noise",
			"the noise of one step relative to DP-SGD's is as the index says",
			agree(described.StepNoise, found.all.stepNoise),
		)
	}
	return checkShards(ctx, found, dir, index, facts, recipe)
}

// checkShards checks the files of noise that a folder has beside its recipe.
func checkShards(
	ctx context.Context,
	found *Inspection,
	dir string,
	index *manifest.Index,
	facts manifest.NoiseFacts,
	recipe *noise.Recipe,
) error {
	noiseFiles := slices.DeleteFunc(
		slices.Clone(index.Files),
		func(f manifest.File) bool { return f.Name == manifest.RecipeFile },
	)
	listed := len(index.Files) == len(noiseFiles)+1
	if facts.Shards == 0 {
		found.check("cover", "the folder has the recipe only", listed && len(noiseFiles) == 0)
		return nil
	}
	covered := listed && facts.CheckCover(noiseFiles) == nil
	found.check("cover", "the shards cover all coordinates and steps", covered)
	if !covered {
		return nil
	}
	shapes, offGrid, err := checkNoiseFiles(ctx, dir, facts, float64(recipe.Params.Grid))
	found.count("shapes", "every file has the element type, steps and coordinates of its place", shapes)
	rule := "every value is a multiple of the grid that a float32 holds"
	if facts.DType == manifest.DFloat64 {
		rule = "every value is a multiple of the grid that a float64 holds"
	}
	if recipe.Grid() == noise.NoGrid {
		rule = "every value is a finite number, and on no grid"
	}
	found.count("grid", rule, offGrid)
	return err
}

// checkNoiseFiles reads every file. shapes counts files of a wrong shape, offGrid values off the
// grid.
func checkNoiseFiles(
	ctx context.Context,
	dir string,
	facts manifest.NoiseFacts,
	grid float64,
) (shapes, offGrid int64, err error) {
	for shard := range facts.Shards {
		lo, hi := manifest.NoiseRange(facts.Coordinates, shard, facts.Shards)
		for first := 0; first < facts.Steps; first += facts.StepsPerFile {
			rows := min(facts.StepsPerFile, facts.Steps-first)
			name := manifest.NoiseFile(shard, facts.Shards, first, rows)
			off, err := checkNoiseFile(ctx, store.Join(dir, name), facts.DType, []int{rows, int(hi - lo)}, grid)
			switch {
			case errors.Is(err, errShape):
				shapes++
			case err != nil:
				return shapes, offGrid, err
			}
			offGrid += off
		}
	}
	return shapes, offGrid, nil
}

// errShape is the error of a file of a wrong type, shape or size.
var errShape = errors.New("a file of noise of another shape")

// onGrid reports whether v is a multiple of the grid that a float of size bytes holds exactly. Grid
// 0 means no grid; then v must only be finite.
func onGrid(v, grid float64, size int) bool {
	if grid == 0 {
		return !math.IsInf(v, 0) && !math.IsNaN(v)
	}
	most := float64(1 << 24)
	if size == 8 {
		most = 1 << 53
	}
	steps := v / grid // exact: the grid is a power of two
	return math.Abs(steps) <= most && steps == math.Trunc(steps)
}

// checkNoiseFile returns the number of values of a file that are off the grid.
func checkNoiseFile(
	ctx context.Context,
	path string,
	dtype manifest.DType,
	shape []int,
	grid float64,
) (off int64, err error) {
	f, err := store.Open(ctx, path)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	r := bufio.NewReaderSize(store.Reader(f), 1<<20)
	h, err := manifest.ReadNPYHeader(r)
	if err != nil || h.DType != dtype || !slices.Equal(h.Shape, shape) || dtype.Size() < 4 {
		return 0, errShape
	}
	size, left := dtype.Size(), h.Elements()
	for left > 0 {
		b, err := r.Peek(min(left*size, 1<<16))
		if err != nil {
			return off, errShape
		}
		for i := 0; i < len(b); i += size {
			v := 0.0
			if size == 4 {
				v = float64(math.Float32frombits(binary.LittleEndian.Uint32(b[i:])))
			} else {
				v = math.Float64frombits(binary.LittleEndian.Uint64(b[i:]))
			}
			if !onGrid(v, grid, size) {
				off++
			}
		}
		left -= len(b) / size
		r.Discard(len(b))
	}
	if _, err := r.ReadByte(); err != io.EOF {
		return off, errShape
	}
	return off, nil
}

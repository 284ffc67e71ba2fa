package stages

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/internal/strictjson"
	"minsep/mechanism"
)

// Noise generates the correlated noise of a training run. It reads a strategy, and leaves
// run/noise: a recipe, by which a trainer has the noise made while it computes, and, with Files, the
// noise. Files have the same noise in every copy, so that they are made only when asked for.
//
// The examples and the sampler are taken from the batches and the certificate in the run directory,
// and are part of the noise key: training runs that differ share no random word.
type Noise struct {
	PlanNoise
	Strategy        string  `flag:"strategy" help:"strategy file, made by minsep strategy"`
	Steps           int     `flag:"steps" help:"number of training steps, the same as in the strategy"`                                                                                                 // at least 1
	NoiseMultiplier float64 `flag:"noise-multiplier" help:"σ: standard deviation of the noise before it is correlated, in units of the clip norm (default: from the certificate in the run directory)"` // as in the certificate
	FromCertificate bool    // take NoiseMultiplier, which is not given then, from the certificate in the run directory
}

// FloatingPointOpen is the warning about noise without a grid.
const FloatingPointOpen = "THE FLOATING-POINT CHANNEL IS OPEN: there is no grid, so the low bits of a released sum can tell what was summed; no certificate covers that"

// DTypes are the element types of noise by their names on the command line.
var DTypes = map[string]manifest.DType{
	"":        manifest.DFloat32,
	"float32": manifest.DFloat32,
	"float64": manifest.DFloat64,
}

// Validate reports every fault that can be seen without the strategy.
func (n Noise) Validate() error {
	c := param.Checker{}
	c.Require(
		n.Strategy != "",
		"strategy",
		`""`,
		"must name a strategy file; make one with `minsep strategy --out`",
	)
	c.AtLeast("steps", n.Steps, 1)
	c.Require(
		n.Coordinates >= 1 && n.Coordinates <= noise.MaxCoordinates,
		"coordinates",
		n.Coordinates,
		"must be 1 to 2^48",
	)
	if !n.FromCertificate {
		c.Positive("noise multiplier", n.NoiseMultiplier)
	}
	ok, rule := noise.ValidClipNorm(n.ClipNorm)
	c.Require(ok, "clip norm", n.ClipNorm, rule)
	c.Require(n.Grid.Valid(), "grid", float64(n.Grid), `must be a power of two, or "none"`)
	c.Require(DTypes[n.DType] != "", "dtype", n.DType, "must be float32 or float64")
	_, err := noise.ParseWords(n.Words)
	c.Add(err)
	most := max(1, min(n.Coordinates, manifest.MaxNoiseShards))
	c.Requiref(n.Shards >= 0 && int64(n.Shards) <= most, "shards", n.Shards, "must be 1 to %d", most)
	c.Require(n.StepsPerFile >= 0, "steps per file", n.StepsPerFile, "must be at least 1")
	c.Require(
		n.Files || n.Shards <= 0,
		"shards",
		n.Shards,
		"is for noise in files, which are written only when asked for: give --files, or \"files\": true in a plan's noise",
	)
	c.Require(
		n.Files || n.StepsPerFile <= 0,
		"steps per file",
		n.StepsPerFile,
		"is for noise in files, which are written only when asked for: give --files, or \"files\": true in a plan's noise",
	)
	return c.Err()
}

// ReadStrategyFile reads a strategy as [mechanism.ReadStrategy] does. A fault of it is a
// [ParamError].
func ReadStrategyFile(ctx context.Context, path string) (*mechanism.Strategy, error) {
	f, err := store.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := mechanism.ReadStrategy(store.Text(f))
	if err != nil {
		rule := "cannot be used: correct it, or make one with `minsep strategy`"
		if bad, ok := errors.AsType[*json.SyntaxError](err); ok && bad.Offset <= 1 || errors.Is(err, strictjson.ErrForeign) {
			rule = "is not a strategy file, as `minsep strategy --out` makes them"
		}
		return nil, fmt.Errorf("%w: %w", &ParamError{Param: "strategy", Value: path, Rule: rule}, err)
	}
	return s, nil
}

// NamedStrategy does ReadStrategyFile for a file that the user names: a missing file is a fault of
// the name, and the error says how to make one.
func NamedStrategy(ctx context.Context, path string) (*mechanism.Strategy, error) {
	s, err := ReadStrategyFile(ctx, path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &ParamError{
			Param: "strategy",
			Value: path,
			Rule:  "does not exist: make one with `minsep strategy --out " + path + "`, for independent noise with --kind identity",
		}
	}
	return s, err
}

// Recipe returns the recipe of a training run's noise, not yet bound to a run, and the facts of its
// files.
func (n Noise) Recipe(ctx context.Context, training noise.Training) (*noise.Recipe, manifest.NoiseFacts, error) {
	s, err := NamedStrategy(ctx, n.Strategy)
	if err != nil {
		return nil, manifest.NoiseFacts{}, err
	}
	if s.Steps != n.Steps {
		return nil, manifest.NoiseFacts{}, param.Fault("steps", n.Steps, "must be %d, as the strategy %s has", s.Steps, n.Strategy)
	}
	r, err := noise.NewRecipe(
		noise.Config{
			Strategy:        s,
			Coordinates:     n.Coordinates,
			NoiseMultiplier: n.NoiseMultiplier,
			ClipNorm:        n.ClipNorm,
			Grid:            n.Grid,
			Float64:         DTypes[n.DType] == manifest.DFloat64,
			Training:        training,
			Words:           noise.Words(n.Words),
		},
	)
	return r, n.Layout(), err
}

// Layout returns the layout of the files.
func (n Noise) Layout() manifest.NoiseFacts {
	facts := manifest.NoiseFacts{Steps: n.Steps, Coordinates: n.Coordinates}
	if !n.Files {
		return facts
	}
	facts.DType, facts.Shards, facts.StepsPerFile = DTypes[n.DType], n.Shards, n.StepsPerFile
	if facts.Shards == 0 {
		facts.Shards = defaultNoiseShards(n.Coordinates)
	}
	if facts.StepsPerFile == 0 {
		facts.StepsPerFile = manifest.DefaultStepsPerFile
	}
	return facts
}

// shardCoordinates is the width of a shard. At this width 255 rows of state take half a GiB,
// and 1000 steps of float32 a file of one GiB.
const shardCoordinates = 1 << 18

// defaultNoiseShards returns the number of shards if the user gives none.
func defaultNoiseShards(coordinates int64) int {
	return int(min((coordinates+shardCoordinates-1)/shardCoordinates, manifest.MaxNoiseShards))
}

// ReadRecipe reads the recipe of noise.
func ReadRecipe(ctx context.Context, path string) (*noise.Recipe, error) {
	f, err := store.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return noise.Read(io.LimitReader(store.Text(f), maxText))
}

// noiseStage is the noise in plans, run directories and inspections.
var noiseStage = Stage{
	Name:     "noise",
	Group:    "noise",
	Results:  []string{manifest.NoiseFolder},
	Formats:  []string{manifest.NoiseFormat},
	Secret:   true,
	faults:   func(p Plan) error { return NoiseOf(p, 1).Validate() },
	estimate: estimateNoise,
}

// PlanNoise says which noise a plan makes: see [Noise]. Its multiplier is the certificate's.
type PlanNoise struct {
	Coordinates int64      `json:"coordinates"         flag:"coordinates" help:"length of a gradient: the number of parameters of the model"`                                                                                                                // 1 to 2^48
	ClipNorm    float64    `json:"clip_norm,omitempty" flag:"clip-norm"   help:"ζ: the norm to which gradients are clipped"`                                                                                                                                 // see [noise.ValidClipNorm]; in a plan 0 for 1
	Grid        noise.Grid `json:"grid,omitempty"      flag:"grid"        help:"power of two: the noise is rounded to its multiples; or none: then the low bits of floating-point sums may reveal the data (default: by the size of the noise and --dtype)"` // 0 for the default, or [noise.NoGrid]
	DType       string     `json:"dtype,omitempty"     flag:"dtype"       help:"type of the numbers in the files: float32, or float64, which has a finer default grid; with --grid the type does not change the values"`                                     // "" for float32. It decides the default of Grid, and no value if Grid is given
	Words       string     `json:"words,omitempty"     flag:"words"       help:"generator of the random words: aes-128, or chacha12, with which a program on an accelerator can make the same noise, bit for bit"`                                           // [noise.AES128] or [noise.ChaCha12]; "" for AES-128

	// The fields below do not change the values.

	Shards       int  `json:"shards,omitempty"         decides:"files" flag:"shards"         help:"number of shards: ranges of coordinates, each in a folder of its own (default: by the number of coordinates); does not change the values"` // at least 1; 0 for as many as the size calls for
	StepsPerFile int  `json:"steps_per_file,omitempty" decides:"files" flag:"steps-per-file" help:"number of steps in a file (default 1000); does not change the values"`                                                                     // at least 1; 0 for 1000
	Files        bool `json:"files,omitempty"          decides:"files" flag:"files"          help:"write the noise to files too: every copy of them has the same noise, and can hide a second training, which nothing notices"`
}

// NoiseOf returns the plan's parameters of noise, with a noise multiplier.
func NoiseOf(p Plan, multiplier float64) Noise {
	return Noise{PlanNoise: p.Noise, Strategy: strategyPath(p), Steps: p.Scheme.Steps, NoiseMultiplier: multiplier}
}

// headerBytes is the size of the header of a .npy file.
const headerBytes = 128

// estimateNoise gives the exact number and sizes of the files: they follow from the plan. It leaves
// out the recipe.
func estimateNoise(p Plan) PlanEstimate {
	n := NoiseOf(p, 1)
	e := PlanEstimate{Files: 1}
	if !n.Files {
		return e
	}
	facts := n.Layout()
	perFile := min(facts.StepsPerFile, n.Steps)
	files := facts.Shards * ((n.Steps + perFile - 1) / perFile)
	e.Rows, e.Files = Product(int64(n.Steps), n.Coordinates), files+1
	e.Bytes = Product(e.Rows, int64(DTypes[n.DType].Size())) + int64(files)*headerBytes
	return e
}

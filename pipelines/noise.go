package pipelines

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"syscall"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/accounting"
	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/manifest"
	"minsep/mechanism"
	"minsep/mechanism/noise"
	"minsep/sampling/stream"
	"minsep/transforms/manifestio"
	"minsep/transforms/noiseshards"
)

// NoiseFolder is the folder of noise in a run directory.
const NoiseFolder = "noise"

// NoiseFormat is the format of its index.
const NoiseFormat = "minsep-noise/1"

// Noise makes the correlated noise of a training: strategy in, run/noise out. The folder has a recipe by which a trainer
// can make the noise itself, and, unless RecipeOnly, the noise.
//
// One run id serves one training. Which one it is, its examples and its sampler, is taken from the batches and the certificate in the run
// directory, and is part of the noise key: trainings that differ share no random word. Run refuses ([noise.ClaimError]) a run
// id that serves another training or another directory, as far as the records of the [noise.Registry] say.
type Noise struct {
	Strategy        string  // file
	Steps           int     // must be those of the strategy
	Coordinates     int64   // of the gradients
	NoiseMultiplier float64 // σ in units of ClipNorm, as the certificate has it
	FromCertificate bool    // take NoiseMultiplier, which is not given then, from the certificate in the run directory
	ClipNorm        float64 // ζ
	Grid            noise.Grid
	DType           string // float32 or float64; "" for float32. It decides the default of Grid, and no value where Grid is given

	// What follows does not change the values.

	RecipeOnly   bool
	Shards       int // 0 for as many as the size calls for
	StepsPerFile int // 0 for the default, 1000
}

// NoiseFacts are what the index of a folder of noise says of its files. Shards 0 is a folder with the recipe only.
type NoiseFacts struct {
	Steps        int            `json:"steps"`
	Coordinates  int64          `json:"coordinates"`
	Shards       int            `json:"shards"`
	StepsPerFile int            `json:"steps_per_file,omitempty"`
	DType        manifest.DType `json:"dtype,omitempty"`
}

// Noised is what there is to say of a training's noise. All of it is public.
type Noised struct {
	RunID           string  `json:"run_id"`
	Out             string  `json:"out"`
	Kind            string  `json:"kind"`             // of the strategy
	NoiseMultiplier float64 `json:"noise_multiplier"` // σ in units of the clip norm
	// Certificate is the file that NoiseMultiplier was taken from, and Status the status of what it certifies; "" where σ was given.
	Certificate string            `json:"certificate,omitempty"`
	Status      accounting.Status `json:"status,omitempty"`
	ClipNorm    float64           `json:"clip_norm"`
	Grid        noise.Grid        `json:"grid"`              // a number, or "none"
	Sensitivity float64           `json:"sensitivity"`       // ζ: the most that a clipped gradient's norm may be, rounded to the grid or not
	Warning     string            `json:"warning,omitempty"` // [FloatingPointOpen] without a grid
	Training    noise.Training    `json:"training"`          // as the recipe has it
	NoiseFacts
	Bytes int64 `json:"bytes"` // of the noise, headers aside
}

// FloatingPointOpen is what is said of noise without a grid.
const FloatingPointOpen = "THE FLOATING-POINT CHANNEL IS OPEN: there is no grid, so the low bits of a released sum can tell what was summed; no certificate covers that"

// dtypes are the element types of noise by their names on the command line.
var dtypes = map[string]manifest.DType{"": manifest.DFloat32, "float32": manifest.DFloat32, "float64": manifest.DFloat64}

// Validate reports every fault that can be seen without the strategy.
func (n Noise) Validate() error {
	c := param.Checker{Package: "pipelines"}
	c.Require(n.Strategy != "", "strategy", `""`, "must name a strategy file; make one with `minsep strategy --out`")
	c.AtLeast("steps", n.Steps, 1)
	c.Require(n.Coordinates >= 1 && n.Coordinates <= noise.MaxCoordinates, "coordinates", n.Coordinates, "must be 1 to 2^48")
	if !n.FromCertificate {
		c.Positive("noise multiplier", n.NoiseMultiplier)
	}
	ok, rule := noise.ValidClipNorm(n.ClipNorm)
	c.Require(ok, "clip norm", n.ClipNorm, rule)
	c.Require(n.Grid.Valid(), "grid", float64(n.Grid), `must be a power of two, or "none"`)
	c.Require(dtypes[n.DType] != "", "dtype", n.DType, "must be float32 or float64")
	most := max(1, min(n.Coordinates, noiseshards.MaxShards))
	c.Require(n.Shards >= 0 && int64(n.Shards) <= most, "shards", n.Shards, fmt.Sprintf("must be 1 to %d", most))
	c.Require(n.StepsPerFile >= 0, "steps per file", n.StepsPerFile, "must be at least 1")
	return c.Err()
}

// ReadStrategyFile reads a strategy as [mechanism.ReadStrategy] does. What is wrong with it is a [ParamError].
func ReadStrategyFile(ctx context.Context, path string) (*mechanism.Strategy, error) {
	f, err := store.Open(ctx, path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	s, err := mechanism.ReadStrategy(store.Text(f))
	if err != nil {
		return nil, fmt.Errorf("%w: %w", &ParamError{Package: "pipelines", Param: "strategy", Value: path, Rule: "cannot be used"}, err)
	}
	return s, nil
}

// recipe returns the recipe of a training's noise, not bound to a run, and the facts.
func (n Noise) recipe(ctx context.Context, training noise.Training) (*noise.Recipe, NoiseFacts, error) {
	s, err := ReadStrategyFile(ctx, n.Strategy)
	if err != nil {
		return nil, NoiseFacts{}, err
	}
	if s.Steps != n.Steps {
		return nil, NoiseFacts{}, &ParamError{Package: "pipelines", Param: "steps", Value: n.Steps, Rule: fmt.Sprintf("must be %d, as the strategy %s has", s.Steps, n.Strategy)}
	}
	r, err := noise.NewRecipe(noise.Config{Strategy: s, Coordinates: n.Coordinates, NoiseMultiplier: n.NoiseMultiplier, ClipNorm: n.ClipNorm,
		Grid: n.Grid, Float64: dtypes[n.DType] == manifest.DFloat64, Training: training})
	return r, n.layout(), err
}

// layout says which files there will be.
func (n Noise) layout() NoiseFacts {
	facts := NoiseFacts{Steps: n.Steps, Coordinates: n.Coordinates}
	if n.RecipeOnly {
		return facts
	}
	facts.DType, facts.Shards, facts.StepsPerFile = dtypes[n.DType], n.Shards, n.StepsPerFile
	if facts.Shards == 0 {
		facts.Shards = defaultNoiseShards(n.Coordinates)
	}
	if facts.StepsPerFile == 0 {
		facts.StepsPerFile = noiseshards.DefaultStepsPerFile
	}
	return facts
}

// shardCoordinates is the width of a shard of which 255 rows of state take half a GiB, and 1000 steps of float32 a file of one GiB.
const shardCoordinates = 1 << 18

func defaultNoiseShards(coordinates int64) int {
	return int(min((coordinates+shardCoordinates-1)/shardCoordinates, noiseshards.MaxShards))
}

// Run makes the noise. After an interruption the folder stays unfinished, and on a full disk, so that the same call goes on where it was; after
// another failure it is as empty as before.
func (n Noise) Run(ctx context.Context, o Options) (noised Noised, err error) {
	c := param.Checker{Package: "pipelines"}
	var from *accounting.Certificate
	if n.FromCertificate {
		if from, err = certificateFor(ctx, o.Out); err == nil {
			n.NoiseMultiplier = from.NoiseMultiplier
		}
		c.Add(err)
	}
	c.Add(n.Validate())
	o.validate(&c)
	if err := c.Err(); err != nil {
		return Noised{}, err
	}
	if err := o.oneTrainingByKey(ctx, ""); err != nil {
		return Noised{}, err
	}
	here, err := o.present(ctx, NoiseFolder)
	if err != nil {
		return Noised{}, err
	}
	training, err := here.training()
	if err != nil {
		return Noised{}, err
	}
	r, facts, err := n.recipe(ctx, training)
	if err != nil {
		return Noised{}, err
	}
	noised = newNoised(r, facts, o.Out)
	if from != nil {
		noised.Certificate, noised.Status = store.Join(o.Out, CertificateFile), from.Status
	}
	if err := certified(ctx, o.Out, r); err != nil {
		return noised, err
	}
	if err := o.registered(ctx, noise.Record{ParamsSHA256: r.ParamsSHA256, Training: training, Directory: realPath(o.Out)}); err != nil {
		return noised, err
	}
	if o.DryRun {
		return noised, nil
	}
	w := noiseWriter{options: o, recipe: r, facts: facts}
	err = w.run(ctx)
	noised.RunID = r.RunID.String()
	return noised, err
}

func newNoised(r *noise.Recipe, facts NoiseFacts, out string) Noised {
	n := Noised{
		Out: out, Kind: r.Strategy.Kind, NoiseMultiplier: float64(r.Params.NoiseMultiplier), ClipNorm: float64(r.Params.ClipNorm),
		Grid: r.Grid(), Sensitivity: float64(r.Sensitivity), Training: r.Params.Training, NoiseFacts: facts,
		Bytes: int64(facts.Steps) * facts.Coordinates * int64(facts.DType.Size()),
	}
	if n.Grid == noise.NoGrid {
		n.Warning = FloatingPointOpen
	}
	return n
}

// readCertificate reads the certificate of a run directory; the error wraps fs.ErrNotExist where there is none.
func readCertificate(ctx context.Context, run string) (*accounting.Certificate, error) {
	path := store.Join(run, CertificateFile)
	data, err := ReadFile(ctx, path)
	if err != nil {
		return nil, err
	}
	c, err := accounting.ParseCertificate(data)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", &ParamError{Package: "pipelines", Param: "certificate", Value: path, Rule: "cannot be read"}, err)
	}
	return c, nil
}

// certificateFor is readCertificate for a noise multiplier that was not given.
func certificateFor(ctx context.Context, run string) (*accounting.Certificate, error) {
	missing := &ParamError{Package: "pipelines", Param: "noise multiplier", Value: "(none)", Rule: "must be given where the run directory has no certificate to take it from"}
	if run == "" {
		return nil, missing
	}
	c, err := readCertificate(ctx, run)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missing
	}
	return c, err
}

// certified returns what is wrong with noise for a run directory whose certificate is for another strategy or for more noise.
func certified(ctx context.Context, run string, r *noise.Recipe) error {
	c, err := readCertificate(ctx, run)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	check := param.Checker{Package: "pipelines"}
	sigma := float64(r.Params.NoiseMultiplier)
	check.Require(sigma >= c.NoiseMultiplier, "noise multiplier", sigma, fmt.Sprintf("must be at least %v, which the certificate in %s is for", c.NoiseMultiplier, run))
	same, err := sameMatrix(r.Strategy, c.Run.Strategy)
	check.Add(err)
	check.Require(same, "strategy", r.Strategy.Kind, "must be the one that the certificate in "+run+" is for")
	return check.Err()
}

// sameMatrix reports whether two strategies are held alike, by whatever name.
func sameMatrix(a, b *mechanism.Strategy) (bool, error) {
	if a == nil || b == nil {
		return false, nil
	}
	x, y := *a, *b
	x.Kind, y.Kind = "", ""
	jsonX, errX := json.Marshal(&x)
	jsonY, errY := json.Marshal(&y)
	return bytes.Equal(jsonX, jsonY), errors.Join(errX, errY)
}

// noiseWriter writes a folder of noise.
type noiseWriter struct {
	options Options
	recipe  *noise.Recipe
	facts   NoiseFacts

	key string // absolute path
}

func (w *noiseWriter) run(ctx context.Context) (err error) {
	if w.key, err = store.Abs(w.options.KeyFile); err != nil {
		return err
	}
	root, err := stream.ReadKeyFile(w.key)
	if err != nil {
		return err
	}
	o, unlock, err := w.options.lock()
	if err != nil {
		return err
	}
	defer unlock()
	w.options = o
	run, made, err := manifest.OpenRun(w.options.Out, w.options.RunID)
	if err != nil {
		return err
	}
	defer func() {
		if err != nil && made && ctx.Err() == nil && !isFull(err) {
			err = errors.Join(err, manifest.RemoveRun(w.options.Out))
		}
	}()
	w.recipe.Bind(root, run.RunID, w.key)
	// The claim comes before anything is removed: a refused overwrite leaves the result that is there.
	if !w.options.translates() {
		registry, err := noise.OpenRegistry(root, w.key)
		var plan manifest.Digest
		if err == nil && run.Plan != nil {
			plan, err = trainingDigest(run.Plan.Plan)
		}
		if err == nil {
			err = registry.Claim(w.recipe, w.options.Out, noise.Digest(plan))
		}
		if err != nil {
			return err
		}
	}
	same, err := w.digest()
	if err != nil {
		return err
	}
	stage, err := manifest.Resume(store.Join(w.options.Out, NoiseFolder), true, w.options.Overwrite, same)
	if err != nil {
		return err
	}
	defer func() {
		switch {
		case err == nil || ctx.Err() != nil:
		case isFull(err):
			err = fmt.Errorf("%w: the finished files of noise stay; make room and repeat the command, which goes on from there", err)
		default:
			err = errors.Join(err, stage.Abort())
		}
	}()
	index, err := w.write(ctx, stage)
	if err != nil {
		return err
	}
	index.Secret = secretOf(root, run.RunID, NoiseFolder)
	return stage.Publish(index)
}

// isFull reports whether a disk or a quota is full. Of a runner whose workers are other processes there is only the text.
func isFull(err error) bool {
	for _, full := range []error{syscall.ENOSPC, syscall.EDQUOT} {
		if errors.Is(err, full) || strings.Contains(err.Error(), full.Error()) {
			return true
		}
	}
	return false
}

// digest covers everything that decides the files: the recipe, which names run and key, and their layout.
func (w *noiseWriter) digest() (manifest.Digest, error) {
	recipe, err := w.recipe.SHA256()
	if err != nil {
		return manifest.Digest{}, err
	}
	_, same, err := manifest.Params(struct {
		RecipeSHA256 noise.Digest
		NoiseFacts
	}{recipe, w.facts})
	return same, err
}

// write writes the recipe and the noise, and returns the index.
func (w *noiseWriter) write(ctx context.Context, stage *manifest.Stage) (index manifest.Index, err error) {
	index = manifest.Index{Format: NoiseFormat, RunID: w.recipe.RunID}
	if index.Params, index.ParamsSHA256, err = manifest.Params(w.recipe.Params); err != nil {
		return index, err
	}
	if index.Facts, err = json.Marshal(w.facts); err != nil {
		return index, err
	}
	dir, err := store.Abs(stage.Dir)
	if err != nil {
		return index, err
	}
	recipe, err := noiseshards.WriteRecipe(dir, w.recipe)
	if err != nil {
		return index, err
	}
	if w.facts.Shards > 0 {
		c := w.facts.config(dir)
		c.KeyURI, c.RecipeSHA256 = w.key, recipe.SHA256
		if index.Files, err = w.options.writeNoise(ctx, c, w.facts.Steps); err != nil {
			return index, err
		}
	}
	index.Files = append(index.Files, recipe)
	if w.options.translates() { // the recipe alone is written without a job
		return index, ErrTranslated
	}
	return index, nil
}

// config is the layout of the files as their writer has it.
func (f NoiseFacts) config(dir string) noiseshards.Config {
	return noiseshards.Config{Dir: dir, Shards: f.Shards, DType: f.DType, StepsPerFile: f.StepsPerFile}
}

// writeNoise runs the pipeline.
func (o Options) writeNoise(ctx context.Context, c noiseshards.Config, steps int) ([]manifest.File, error) {
	p, s := beam.NewPipelineWithRoot()
	files, err := noiseshards.Write(s, c)
	if err != nil {
		return nil, err
	}
	manifestio.Collect(s, c.Dir, collectedFiles, files)
	if _, err := o.run(ctx, p); err != nil {
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		return nil, err
	}
	written, err := manifestio.CollectedFiles(c.Dir, collectedFiles)
	if err != nil {
		return nil, err
	}
	return written, c.CheckCover(steps, written)
}

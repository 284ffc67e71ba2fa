package pipelines

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/accounting"
	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/manifest"
	"minsep/mechanism/noise"
	"minsep/sampling/stream"
	"minsep/stages"
	"minsep/transforms/manifestio"
	"minsep/transforms/noiseshards"
)

// NoiseResult is what there is to say of a training run's noise. All of it is public.
type NoiseResult struct {
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
	Warning     string            `json:"warning,omitempty"` // [stages.FloatingPointOpen] without a grid
	Training    noise.Training    `json:"training"`          // that of the recipe
	manifest.NoiseFacts
	Bytes int64 `json:"bytes"` // of the noise, headers aside
}

// Noise is the stage with the parameters of [stages.Noise].
type Noise stages.Noise

// Validate reports every fault that can be seen without the strategy.
func (n Noise) Validate() error { return stages.Noise(n).Validate() }

// Run makes the noise. After an interruption the folder stays unfinished, and on a full disk, so that the same call goes on where it was; after
// another failure it is as empty as before.
func (n Noise) Run(ctx context.Context, o Options) (noised NoiseResult, err error) {
	c := param.Checker{Package: "pipelines"}
	var from *accounting.Certificate
	if n.FromCertificate {
		if from, err = certificateFor(ctx, o.Out); err == nil {
			n.NoiseMultiplier = from.NoiseMultiplier
		}
		c.Add(err)
	}
	c.Add(n.Validate())
	o.Validate(&c)
	if err := c.Err(); err != nil {
		return NoiseResult{}, err
	}
	if err := o.oneTrainingByKey(ctx, ""); err != nil {
		return NoiseResult{}, err
	}
	here, err := o.present(ctx, manifest.NoiseFolder)
	if err != nil {
		return NoiseResult{}, err
	}
	training, err := here.Training()
	if err != nil {
		return NoiseResult{}, err
	}
	r, facts, err := stages.Noise(n).Recipe(ctx, training)
	if err != nil {
		return NoiseResult{}, err
	}
	noised = newNoiseResult(r, facts, o.Out)
	if from != nil {
		noised.Certificate, noised.Status = store.Join(o.Out, manifest.CertificateFile), from.Status
	}
	if err := stages.Certified(ctx, o.Out, r); err != nil {
		return noised, err
	}
	if err := o.registered(ctx, noise.Record{ParamsSHA256: r.ParamsSHA256, Training: training, Directory: store.Resolved(o.Out)}); err != nil {
		return noised, err
	}
	if err := o.HasRoom(noised.Bytes, manifest.NoiseFolder); err != nil {
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

func newNoiseResult(r *noise.Recipe, facts manifest.NoiseFacts, out string) NoiseResult {
	n := NoiseResult{
		Out: out, Kind: r.Strategy.Kind, NoiseMultiplier: float64(r.Params.NoiseMultiplier), ClipNorm: float64(r.Params.ClipNorm),
		Grid: r.Grid(), Sensitivity: float64(r.Sensitivity), Training: r.Params.Training, NoiseFacts: facts,
		Bytes: stages.Product(int64(facts.Steps), facts.Coordinates, int64(facts.DType.Size())),
	}
	if n.Grid == noise.NoGrid {
		n.Warning = stages.FloatingPointOpen
	}
	return n
}

// certificateFor is stages.ReadCertificate for a noise multiplier that was not given.
func certificateFor(ctx context.Context, run string) (*accounting.Certificate, error) {
	missing := &ParamError{Package: "pipelines", Param: "noise multiplier", Value: "(none)", Rule: "must be given where the run directory has no certificate to take it from"}
	if run == "" {
		return nil, missing
	}
	c, err := stages.ReadCertificate(ctx, run)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, missing
	}
	return c, err
}

// noiseWriter writes a folder of noise.
type noiseWriter struct {
	options Options
	recipe  *noise.Recipe
	facts   manifest.NoiseFacts

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
	o, unlock, err := w.options.Lock()
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
	if !w.options.Translates() {
		registry, err := noise.OpenRegistry(root, w.key)
		var plan manifest.Digest
		if err == nil && run.Plan != nil {
			plan, err = stages.TrainingDigest(run.Plan.Plan)
		}
		if err == nil {
			err = registry.Claim(w.recipe, w.options.Out, plan)
		}
		if err != nil {
			return err
		}
	}
	same, err := w.digest()
	if err != nil {
		return err
	}
	stage, err := manifest.Resume(store.Join(w.options.Out, manifest.NoiseFolder), true, w.options.Overwrite, same)
	if err != nil {
		return err
	}
	defer func() {
		switch {
		case err == nil || ctx.Err() != nil:
		case isFull(err):
			err = withoutRoom(err, store.Join(w.options.Out, manifest.NoiseFolder), "the finished files of noise stay; make room and repeat the command, which goes on from there")
		default:
			err = errors.Join(err, stage.Abort())
		}
	}()
	index, err := w.write(ctx, stage)
	if err != nil {
		return err
	}
	index.Secret = secretOf(root, run.RunID, manifest.NoiseFolder)
	return stage.Publish(index)
}

// digest covers everything that decides the files: the recipe, which names run and key, and their layout.
func (w *noiseWriter) digest() (manifest.Digest, error) {
	recipe, err := w.recipe.SHA256()
	if err != nil {
		return manifest.Digest{}, err
	}
	_, same, err := manifest.Params(struct {
		RecipeSHA256 noise.Digest
		manifest.NoiseFacts
	}{recipe, w.facts})
	return same, err
}

// write writes the recipe and the noise, and returns the index.
func (w *noiseWriter) write(ctx context.Context, stage *manifest.Stage) (index manifest.Index, err error) {
	index = manifest.Index{Format: manifest.NoiseFormat, RunID: w.recipe.RunID}
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
		c := noiseshards.Config{Dir: dir, Shards: w.facts.Shards, DType: w.facts.DType, StepsPerFile: w.facts.StepsPerFile, KeyURI: w.key, RecipeSHA256: recipe.SHA256}
		if index.Files, err = w.options.writeNoise(ctx, c, w.facts); err != nil {
			return index, err
		}
	}
	index.Files = append(index.Files, recipe)
	if w.options.Translates() { // the recipe alone is written without a job
		return index, ErrTranslated
	}
	return index, nil
}

// writeNoise runs the pipeline.
func (o Options) writeNoise(ctx context.Context, c noiseshards.Config, facts manifest.NoiseFacts) ([]manifest.File, error) {
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
	return written, facts.CheckCover(written)
}

package pipelines

import (
	"context"
	"errors"
	"io/fs"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/accounting"
	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/param"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/transforms/manifestio"
	"minsep/internal/transforms/noiseshards"
)

// NoiseResult describes a training run's noise. All of it is public.
type NoiseResult struct {
	RunID           string  `json:"run_id"`
	Out             string  `json:"out"`              // run directory
	Kind            string  `json:"kind"`             // of the strategy
	NoiseMultiplier float64 `json:"noise_multiplier"` // σ in units of the clip norm
	// Certificate is the file that NoiseMultiplier was taken from, and Status the status of its
	// claim; "" where σ was given.
	Certificate string            `json:"certificate,omitempty"`
	Status      accounting.Status `json:"status,omitempty"`  // of the certificate; "" without one
	ClipNorm    float64           `json:"clip_norm"`         // ζ, above 0
	Grid        noise.Grid        `json:"grid"`              // a number, or "none"
	Words       noise.Words       `json:"words"`             // source of random words
	Sensitivity float64           `json:"sensitivity"`       // ζ: the most that a clipped gradient's norm may be, rounded to the grid or not
	Warning     string            `json:"warning,omitempty"` // [stages.FloatingPointOpen] without a grid
	Training    noise.Training    `json:"training"`          // of the recipe
	manifest.NoiseFacts
	Bytes int64 `json:"bytes"` // of the noise, headers aside; at least 0
}

// Noise is the noise with the parameters of [stages.Noise].
type Noise stages.Noise

// Validate reports every fault that can be seen without the strategy.
func (n Noise) Validate() error { return stages.Noise(n).Validate() }

// init registers the stage for plans.
func init() {
	inPlans["noise"] = InPlan{Run: func(ctx context.Context, p stages.Plan, o Options, _ *Figures) error {
		c, err := stages.ReadCertificate(ctx, p.Out)
		if err != nil {
			return err
		}
		_, err = Noise(stages.NoiseOf(p, c.NoiseMultiplier)).Run(ctx, o)
		return err
	}}
}

// Run makes the noise. After an interruption or on a full disk the folder stays unfinished, so that
// the same call goes on from there. After any other failure it is as empty as before.
func (n Noise) Run(ctx context.Context, o Options) (NoiseResult, error) {
	w, err := o.begin(ctx, beginning{stage: n, key: true, looks: true, inputs: func(c *param.Checker) {
		if _, err := store.Stat(ctx, n.Strategy); n.Strategy != "" && errors.Is(err, fs.ErrNotExist) {
			_, err = stages.NamedStrategy(ctx, n.Strategy)
			c.Add(err)
		}
		has, err := hasCertificate(ctx, o.Out)
		if c.Add(err); err == nil && n.FromCertificate && !has {
			c.Add(noCertificate())
		}
	}})
	if err != nil {
		return NoiseResult{}, err
	}
	defer w.end()
	certificate := w.here.Certificate()
	if n.FromCertificate {
		if certificate == nil { // any more
			return NoiseResult{}, noCertificate()
		}
		n.NoiseMultiplier = certificate.NoiseMultiplier
	}
	training, err := w.here.Training()
	if err != nil {
		return NoiseResult{}, err
	}
	r, facts, err := stages.Noise(n).Recipe(ctx, training)
	if err != nil {
		return NoiseResult{}, err
	}
	noised := newNoiseResult(r, facts, o.Out)
	if n.FromCertificate {
		noised.Certificate, noised.Status = w.here.CertificatePath(), certificate.Status
	}
	if err := w.here.WithNoise(r.Params).Agree(); err != nil || o.DryRun {
		return noised, err
	}
	if err := HasRoom(ctx, o.Out, noised.Bytes, manifest.NoiseFolder); err != nil {
		return noised, err
	}
	err = n.write(ctx, w, r, facts)
	noised.RunID = r.RunID.String()
	return noised, err
}

// newNoiseResult describes the noise of a recipe.
func newNoiseResult(r *noise.Recipe, facts manifest.NoiseFacts, out string) NoiseResult {
	n := NoiseResult{
		Out:             out,
		Kind:            r.Strategy.Kind,
		NoiseMultiplier: float64(r.Params.NoiseMultiplier),
		ClipNorm:        float64(r.Params.ClipNorm),
		Grid:            r.Grid(),
		Words:           r.Params.Words,
		Sensitivity:     float64(r.Sensitivity),
		Training:        r.Params.Training,
		NoiseFacts:      facts,
		Bytes:           stages.Product(int64(facts.Steps), facts.Coordinates, int64(facts.DType.Size())),
	}
	if n.Grid == noise.NoGrid {
		n.Warning = stages.FloatingPointOpen
	}
	return n
}

// hasCertificate reports whether a run directory has a certificate with a noise multiplier.
func hasCertificate(ctx context.Context, run string) (bool, error) {
	if run == "" {
		return false, nil
	}
	name, err := stages.FindClaim(ctx, run)
	return name != "", err
}

// noCertificate returns the error for a noise multiplier that is neither given nor certified.
func noCertificate() error {
	return param.Fault(
		"noise multiplier",
		"(none)",
		"must be given where the run directory has no certificate to take it from",
	)
}

// write writes the folder of noise. Finished files stay after an interruption and on a full disk.
func (n Noise) write(ctx context.Context, w *work, r *noise.Recipe, facts manifest.NoiseFacts) error {
	key, err := store.Abs(w.set.KeyFile)
	if err != nil {
		return err
	}
	out := output{
		folder: manifest.NoiseFolder, secret: true, params: r.Params,
		resume: func(run manifest.Run) (same manifest.Digest, err error) {
			r.Bind(w.root, run.RunID, key)
			return layoutDigest(r, facts)
		},
		kept: func(err error) bool { return ctx.Err() != nil || fullDisk(err) != nil },
		full: "the finished files of noise stay; make room and repeat the command, which goes on from there",
	}
	return w.write(out, func(_ manifest.Run, stage *manifest.Stage) (manifest.Index, error) {
		return w.writeNoise(ctx, r, facts, stage, key)
	})
}

// layoutDigest returns a digest of everything that decides the files but the bytes of steps: the
// recipe, which names run and key, and the layout.
func layoutDigest(r *noise.Recipe, facts manifest.NoiseFacts) (manifest.Digest, error) {
	recipe, err := r.SHA256()
	if err != nil {
		return manifest.Digest{}, err
	}
	_, same, err := manifest.Params(struct {
		RecipeSHA256 noise.Digest
		manifest.NoiseFacts
	}{recipe, facts})
	return same, err
}

// runNoise runs the pipeline.
func (e engine) runNoise(
	ctx context.Context,
	c noiseshards.Config,
	facts manifest.NoiseFacts,
) ([]manifest.File, error) {
	p, s := beam.NewPipelineWithRoot()
	files, err := noiseshards.Write(s, c)
	if err != nil {
		return nil, err
	}
	manifestio.Collect(s, c.Dir, collectedFiles, files)
	if err := e.run(ctx, p); err != nil {
		return nil, err
	}
	written, err := manifestio.CollectedFiles(c.Dir, collectedFiles)
	if err != nil {
		return nil, err
	}
	return written, facts.CheckCover(written)
}

package stages

import (
	"context"
	"fmt"
	"minsep/internal/store"
	"minsep/internal/strictjson"
	"minsep/manifest"
	"minsep/sampling/stream"
)

type noiseResult struct{ folder }

func (r noiseResult) Resumable(ctx context.Context) (bool, error) {
	return manifest.Interrupted(ctx, r.Path())
}

func (r noiseResult) From() map[string]string {
	return map[string]string{manifest.StrategyFolder: strategyIndex, "certificate": r.claimFile()}
}

func (r noiseResult) Compare(ctx context.Context) (bool, []string, error) {
	if finished, err := manifest.Finished(ctx, r.Path()); err != nil || !finished {
		return false, nil, err
	}
	c, err := ReadCertificate(ctx, r.Out)
	if err != nil {
		return false, nil, err
	}
	return r.Plan.NoiseParams(c.NoiseMultiplier).differences(ctx, r.Path(), r.Run.RunID, r.KeyFile)
}

// differences names the parts of a folder of noise that the stage would write otherwise; without a
// key, but for its commitment to the key.
func (n Noise) differences(ctx context.Context, dir string, run stream.RunID, keyFile string) (there bool, differs []string, err error) {
	here, err := ReadPresent(ctx, store.Dir(dir), manifest.NoiseFolder)
	if err != nil {
		return false, nil, err
	}
	training, err := here.Training()
	if err != nil {
		return false, nil, err
	}
	want, facts, err := n.Recipe(ctx, training)
	if err != nil {
		return false, nil, err
	}
	ix, differs, err := expected{dir, manifest.NoiseFormat, want.Params, nil}.look(ctx, run)
	if err != nil || differs != nil {
		return ix != nil, differs, err
	}
	got, err := ReadRecipe(ctx, store.Join(dir, manifest.RecipeFile))
	if err != nil {
		return false, nil, err
	}
	want.RunID, want.KeyFile, want.KeyCommitment = run, got.KeyFile, got.KeyCommitment // where the key lies does not matter
	if keyFile != "" {
		root, err := stream.ReadKeyFile(keyFile)
		if err != nil {
			return false, nil, err
		}
		want.Bind(root, run, got.KeyFile)
	}
	same, err := want.SHA256()
	if err != nil {
		return false, nil, err
	}
	if have, err := got.SHA256(); err != nil || have != same {
		differs = append(differs, "its recipe is another one")
	}
	var has manifest.NoiseFacts
	if err := strictjson.Loose(ix.Facts, &has); err != nil {
		return false, nil, fmt.Errorf("pipelines: %s: facts: %w", dir, err)
	}
	if has != facts {
		differs = append(differs, "its shards, steps of a file or element type are others")
	}
	return true, differs, nil
}

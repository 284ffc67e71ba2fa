package pipelines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"minsep/internal/store"
	"minsep/manifest"
	"minsep/sampling/stream"
	"minsep/stages"
)

// made says which run and which root key a secret folder was made with.
type made struct {
	run   stream.RunID
	byKey func(root stream.Root) bool
}

// oneTraining refuses batches and noise in the run directory that are not of its run id, or not made with the root key: noise must
// never serve two sets of batches, nor batches two kinds of noise. It looks neither at own, which the command makes anew and which
// nothing else rests on, nor at what a plan makes again. Without a root key, nil, only the run ids are compared.
func (o Options) oneTraining(ctx context.Context, own string, root *stream.Root) error {
	if o.Translates() { // nothing is read or written there
		return nil
	}
	run, err := manifest.ReadRun(ctx, o.Out)
	noRun := errors.Is(err, fs.ErrNotExist)
	if err != nil && !noRun {
		return err
	}
	for _, folder := range []string{manifest.BatchesFolder, manifest.NoiseFolder} {
		if folder == own || slices.Contains(o.Replaced, folder) {
			continue
		}
		path := store.Join(o.Out, folder)
		m, err := madeWith(ctx, path, folder)
		switch {
		case err != nil:
			return stages.Unusable(path, err)
		case m == nil:
			continue
		}
		var differs string
		switch {
		case noRun:
			differs = fmt.Sprintf("it is of run %v, and run.json, which would say so, is missing", m.run)
		case m.run != run.RunID:
			differs = fmt.Sprintf("it is of run %v, run.json is of run %v", m.run, run.RunID)
		case root != nil && !m.byKey(*root):
			differs = "it was made with another root key"
		default:
			continue
		}
		return stages.Disagrees(path, []string{differs}, "batches and noise are of one run and one key, and serve one training run: "+stages.NewDirectory)
	}
	return nil
}

// madeWith reads what a secret folder was made with; nil if nothing is there. Noise that is not finished has a recipe already;
// batches that are not finished count as none, since the next run removes them.
func madeWith(ctx context.Context, path, folder string) (*made, error) {
	switch {
	case manifest.Finished(path):
		ix, err := manifest.Read(ctx, path)
		if err != nil {
			return nil, err
		}
		return &made{ix.RunID, func(root stream.Root) bool {
			return ix.Secret != nil && *ix.Secret == *secretOf(root, ix.RunID, folder)
		}}, nil
	case folder == manifest.NoiseFolder && manifest.Interrupted(path):
		r, err := stages.ReadRecipe(ctx, store.Join(path, manifest.RecipeFile))
		if errors.Is(err, fs.ErrNotExist) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		return &made{r.RunID, func(root stream.Root) bool { return r.Key(root, r.RunID).Commitment() == r.KeyCommitment }}, nil
	}
	return nil, nil
}

// oneTrainingByKey is oneTraining with the root key of the key file.
func (o Options) oneTrainingByKey(ctx context.Context, own string) error {
	root, err := stream.ReadKeyFile(o.KeyFile)
	if err != nil {
		return err
	}
	return o.oneTraining(ctx, own, &root)
}

package pipelines

import (
	"context"
	"errors"
	"io/fs"
	"minsep/manifest"
	"minsep/mechanism/noise"
	"minsep/sampling/stream"
)

// registry opens the registry of the root key.
func (o Options) registry() (*noise.Registry, error) {
	root, err := stream.ReadKeyFile(o.KeyFile)
	if err != nil {
		return nil, err
	}
	return noise.OpenRegistry(root, o.KeyFile)
}

// registered refuses, before anything is written, a registry that cannot be written to, and a training run that is not the one which the
// registry has for the run id: that of the run directory, or the one that is asked for. Empty fields of want are not compared.
func (o Options) registered(ctx context.Context, want noise.Record) error {
	g, err := o.registry()
	if err != nil || o.Translates() {
		return err
	}
	if err := g.Writable(o.DryRun); err != nil {
		return err
	}
	want.RunID = o.RunID
	if want.RunID == (stream.RunID{}) {
		run, err := manifest.ReadRun(ctx, o.Out)
		if errors.Is(err, fs.ErrNotExist) {
			return nil // a new id
		}
		if err != nil {
			return err
		}
		want.RunID = run.RunID
	}
	return g.Check(want)
}

// secretOf is what keeps the SHA-256 of a secret index from telling its contents: 32 bytes that only the root key gives, the
// same for a run that is repeated.
func secretOf(root stream.Root, run stream.RunID, folder string) *manifest.Digest {
	secret := manifest.Digest(root.Key(run, [32]byte{}, "index of "+folder).Commitment())
	return &secret
}

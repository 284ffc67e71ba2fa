package inspect

import (
	"context"
	"errors"

	"minsep/internal/manifest"
	"minsep/internal/noise"
	"minsep/internal/stages"
	"minsep/internal/store"
)

func init() { inspectors["strategy"] = inspectStrategy }

// inspectStrategy re-reads a strategy, and compares it with the certificate beside it.
func inspectStrategy(ctx context.Context, dir string, _ *manifest.Index, found *Inspection) error {
	strategy, err := stages.ReadStrategyFile(ctx, store.Join(dir, manifest.StrategyFile))
	if err != nil {
		return err
	}
	c, err := stages.ReadCertificate(ctx, store.Dir(dir))
	if err != nil {
		return nil // there is none yet, or its own inspection reports the fault
	}
	has, err := noise.NoisingSHA256(strategy)
	claimed, errClaimed := noise.NoisingSHA256(c.Run.Strategy)
	if err = errors.Join(err, errClaimed); err == nil {
		found.check("certificate", "the certificate beside it is for this strategy", has == claimed)
	}
	return err
}

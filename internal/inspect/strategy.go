package inspect

import (
	"context"

	"minsep/internal/manifest"
	"minsep/internal/stages"
	"minsep/internal/store"
)

func init() { inspectors["strategy"] = inspectStrategy }

// inspectStrategy re-reads a strategy, and compares it with the certificate beside it.
func inspectStrategy(ctx context.Context, dir string) (Inspection, error) {
	var found Inspection
	index, err := manifest.Open(ctx, dir, manifest.StrategyFormat)
	if err != nil {
		return found, err
	}
	found.Checks = append(found.Checks, filesCheck(ctx, index, dir))
	unlistedCheck(ctx, &found, index, dir)
	run := store.Dir(dir)
	found.Checks = append(found.Checks, sharedRunCheck(ctx, index, run))
	strategy, err := stages.ReadStrategyFile(ctx, store.Join(dir, manifest.StrategyFile))
	if err != nil {
		return found, err
	}
	c, err := stages.ReadCertificate(ctx, run)
	if err != nil {
		return found, nil // there is none yet, or its own inspection reports the fault
	}
	same, err := stages.SameMatrix(strategy, c.Run.Strategy)
	if err != nil {
		return found, err
	}
	found.check("certificate", "the certificate beside it is for this strategy", same)
	return found, nil
}

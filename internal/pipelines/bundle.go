package pipelines

import (
	"context"
	"math"
	"strconv"

	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/sampling"
)

// holdsBundles reports whether the runner keeps the whole output of a bundle until the bundle ends,
// as Flink's does: it hangs at about 400 MB. A bundle is all the work of a subtask in a stage of a
// job.
func (e engine) holdsBundles() bool { return e.portable() }

// sharedDir makes a folder in the stage's folder, through which DoFns pass chunks that are too much
// for a bundle, if the runner keeps bundles, or for the memory of this process. remove removes it.
func (e engine) sharedDir(ctx context.Context, dir string) (shared string, remove func() error, err error) {
	if !e.holdsBundles() && e.runner != DefaultRunner {
		return "", func() error { return nil }, nil
	}
	shared = store.Join(dir, store.TempPrefix+"shared") // left by a killed process, it is in nobody's way
	return shared, func() error { return store.RemoveAll(context.WithoutCancel(ctx), shared) }, store.MkdirAll(
		ctx,
		shared,
		0o700,
	)
}

const (
	bundleBytes = 300e6 // that a subtask may pass on
	eventBytes  = 5     // of a participation that is passed on; measured: 3
	coinBytes   = 64    // of a coin, with the owners that it is sent to
)

// checkBundle returns an error if the parallelism is too low for batches of rows examples:
// formation passes its records on in memory, not through files.
func (e engine) checkBundle(spec sampling.Spec, rows int64, perStep float64) error {
	bytes := perStep * float64(spec.Scheme().NumSteps()) * eventBytes
	bytes += spec.ExpectedCoins(rows) * (eventBytes + coinBytes)
	if spec.Owners != nil { // the table, by owner
		bytes += float64(rows) * coinBytes
	}
	parallelism, err := strconv.Atoi(beamFlag("parallelism"))
	if err != nil || parallelism < 1 {
		parallelism = 1
	}
	need := math.Ceil(bytes / bundleBytes)
	if !e.holdsBundles() || float64(parallelism) >= need {
		return nil
	}
	return param.Fault(
		"parallelism",
		strconv.Itoa(parallelism),
		"must be at least %.0f on %s for so many participations: it hangs when a task outputs more than about 400 MB",
		need,
		e.runner,
	)
}

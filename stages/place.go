package stages

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"slices"
	"syscall"

	"minsep/internal/store"
	"minsep/manifest"
	"minsep/sampling/stream"
)

// Place says how a run directory stands to the one that a record has for its run id.
type Place int

// Places.
const (
	PlaceSame    Place = iota // it is that directory
	PlaceCopy                 // that directory is another one, and there
	PlaceMoved                // that directory is there no more, or is that of another run now
	PlaceUnknown              // one is in an object store and the other is not: it may be one directory, mounted
)

// PlaceOf compares a run directory with the one that is recorded for its run id. A directory that
// had the run id before its run of today counts as one that has it, and so does one of which
// run.json cannot be read.
func PlaceOf(ctx context.Context, recorded, dir string, id stream.RunID) (Place, error) {
	real := store.Resolved(dir)
	if real == recorded {
		return PlaceSame, nil
	}
	if store.Shared(real) != store.Shared(recorded) {
		return PlaceUnknown, nil
	}
	if !store.Shared(real) {
		a, errA := os.Stat(recorded)
		b, errB := os.Stat(real)
		if errA == nil && errB == nil && os.SameFile(a, b) { // mounted at two places
			return PlaceSame, nil
		}
	}
	run, err := manifest.ReadRun(ctx, recorded)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR), err == nil && !slices.Contains(run.Used(), id):
		return PlaceMoved, nil
	case err != nil && !errors.Is(err, manifest.ErrInvalid) && !errors.Is(err, fs.ErrPermission):
		return PlaceUnknown, err
	}
	return PlaceCopy, nil
}

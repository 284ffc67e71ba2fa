package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
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
	PlaceMoved                // that directory is there no more, or belongs to another run now
	PlaceUnknown              // one is in an object store and the other is not: it may be one directory, mounted
)

// PlaceOf compares a run directory with the one that is recorded for its run id. A directory
// that had the run id before its run of today counts as one that has it, and so does one with a
// run.json that cannot be read, or that is gone while its batches or its noise are of the run
// id.
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
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, syscall.ENOTDIR):
		if slices.Contains(FolderRuns(ctx, recorded), id) {
			return PlaceCopy, nil
		}
		return PlaceMoved, nil
	case err == nil && !slices.Contains(run.Used(), id):
		return PlaceMoved, nil
	case err != nil && !errors.Is(err, manifest.ErrInvalid) && !errors.Is(err, fs.ErrPermission):
		return PlaceUnknown, err
	}
	return PlaceCopy, nil
}

// FolderRuns are the run ids of the batches and the noise in a run directory, as their indexes
// and the recipe of unfinished noise name them. A file that cannot be read is left out.
func FolderRuns(ctx context.Context, dir string) (ids []stream.RunID) {
	for _, name := range []string{manifest.BatchesFolder, manifest.NoiseFolder} {
		for _, file := range []string{manifest.IndexName, manifest.RecipeFile} {
			b, err := store.ReadFile(ctx, store.Join(dir, name, file), maxRunFile)
			var of struct {
				RunID stream.RunID `json:"run_id"`
			}
			if err != nil || json.Unmarshal(b, &of) != nil || of.RunID == (stream.RunID{}) {
				continue
			}
			if !slices.Contains(ids, of.RunID) {
				ids = append(ids, of.RunID)
			}
		}
	}
	return ids
}

// OtherRun is the id of another run that run.json, the batches or the noise of a run directory
// belong to; the zero id for none. A run id that is recorded does not come back there: its
// batches and noise would be made again, for a second training perhaps.
func OtherRun(ctx context.Context, dir string, id stream.RunID) stream.RunID {
	ids := FolderRuns(ctx, dir)
	if run, err := manifest.ReadRun(ctx, dir); err == nil {
		ids = append(ids, run.RunID)
	}
	for _, other := range ids {
		if other != id {
			return other
		}
	}
	return stream.RunID{}
}

// ServedBefore is the rule that a run id broke where [OtherRun] found another run.
func ServedBefore(other stream.RunID) string {
	return fmt.Sprintf("must be another one, or left out: it served this directory before run %v, which is there now, and its batches and noise would be made again", other)
}

// maxRunFile bounds the size of an index or recipe that is read for its run id, in bytes.
const maxRunFile = 64 << 20

// OfThisUser returns the record of a run id in the user's state folder, whatever the key: for
// readers of a run directory, who have no key. A record that cannot be read is left out.
// Another user, or another machine, has other records.
func OfThisUser(id stream.RunID) (found []Record) {
	for _, path := range recordsOfThisUser(id) {
		if r, err := readRecord(path, id); err == nil {
			found = append(found, *r)
		}
	}
	return found
}

// recordsOfThisUser are the names that records of a run id have in the user's state folder, where
// they are there.
func recordsOfThisUser(id stream.RunID) (paths []string) {
	state, _ := stateFolder()
	if !filepath.IsAbs(state) {
		return nil
	}
	keys, err := store.List(context.Background(), filepath.Join(state, "minsep", "runs"))
	if err != nil {
		return nil
	}
	for _, key := range keys {
		paths = append(paths, recordFolder{path: filepath.Join(state, "minsep", "runs", key.Name)}.record(id))
	}
	return paths
}

// CopyOf names the original run directory of a copy with the same batches and the same noise;
// "" where none is known. It asks the user's records of run ids, and so misses directories of
// another user or machine, and runs without batches. A copy breaks no check: a certificate
// holds for one training, and two that share their noise reveal their difference.
func CopyOf(ctx context.Context, dir string) string {
	run, err := manifest.ReadRun(ctx, dir)
	if err != nil { // not a run directory, or its inspection names its fault
		return ""
	}
	ix, err := manifest.Read(ctx, store.Join(dir, manifest.NoiseFolder))
	if err != nil {
		ix = nil
	}
	copied := ""
	for _, r := range OfThisUser(run.RunID) {
		if ix != nil && r.HasNoise() && ix.ParamsSHA256 != r.ParamsSHA256 { // of another key, with a run id that was asked for
			continue
		}
		switch place, err := PlaceOf(ctx, r.Directory, dir, run.RunID); {
		case err == nil && place == PlaceSame:
			return ""
		case err == nil && place == PlaceCopy:
			copied = r.Directory
		}
	}
	return copied
}

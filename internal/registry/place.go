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

	"minsep/internal/manifest"
	"minsep/internal/store"
	"minsep/internal/stream"
)

// Place relates a run directory to the directory that is recorded for its run id.
type Place int

// Places.
const (
	PlaceSame    Place = iota // the same directory
	PlaceCopy                 // another directory, and the recorded one still holds the run
	PlaceMoved                // another directory; the recorded one is gone or belongs to another run now
	PlaceUnknown              // only one of the two is in an object store: they may be one directory that is mounted
)

// PlaceOf compares a run directory with the one recorded for its run id. The recorded directory
// counts as holding the run where an earlier run of its run.json has the id, where run.json cannot
// be read, and where run.json is gone but its batches or noise carry the id. An error means that
// the recorded directory could not be looked at.
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

// FolderRuns returns the run ids of the batches and the noise in a run directory, from their
// indexes and from the recipe of unfinished noise. Files that cannot be read are skipped.
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

// OtherRun returns the id of another run to which run.json, the batches or the noise of a run
// directory belong, or the zero id. A run id that served the directory before may not be used there
// again: its batches and noise would be made a second time, perhaps for a second training.
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

// ServedBefore is the rule of the error for a run id where [OtherRun] found the run other.
func ServedBefore(other stream.RunID) string {
	return fmt.Sprintf("must be a new one, or left out: it served this directory before run %v, which is there now, and its batches and noise would be made again", other)
}

// maxRunFile is the largest index or recipe that is read for its run id, in bytes.
const maxRunFile = 64 << 20

// OfThisUser returns the records of a run id in the user's state folder, under any key: a reader of
// a run directory has no key. Records that cannot be read are skipped; records of other users and
// machines are not seen.
func OfThisUser(id stream.RunID) (found []Record) {
	for _, path := range recordsOfThisUser(id) {
		if r, err := readRecord(path, id); err == nil {
			found = append(found, *r)
		}
	}
	return found
}

// recordsOfThisUser returns the paths that records of a run id have, or would have, in the user's
// state folder: one for each key.
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

// CopyOf returns the original run directory if dir is a copy of it, with the same batches and
// noise, or "" if no original is known. A copy passes every other check, yet a certificate holds
// for one training, and two trainings with the same noise reveal their difference. CopyOf reads the
// user's records of run ids: it misses originals of other users and machines, and runs without
// batches.
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
		if ix != nil && r.HasNoise() && ix.ParamsSHA256 != r.ParamsSHA256 { // of another key that was given the same run id
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

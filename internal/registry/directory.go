package registry

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"minsep/internal/manifest"
	"minsep/internal/store"
	"minsep/internal/stream"
	"minsep/internal/strictjson"
)

// directoryFormat is the format of a settled record.
const directoryFormat = "minsep-directory/1"

// settled is the record of the latest run of one directory. It is kept in the user's state folder,
// in a file named by the hash of the directory's path, so that minsep notices when a backup of an
// earlier run takes the place of a later one.
type settled struct {
	Format    string       `json:"format"`
	Directory string       `json:"directory"`
	RunID     stream.RunID `json:"run_id"`
}

// directoryFile returns the path of a directory's settled record. known is false where the user's
// state folder is not known; path is of no use then.
func directoryFile(directory string) (path string, known bool) {
	state, _ := stateFolder()
	sum := sha256.Sum256([]byte(directory))
	return filepath.Join(state, "minsep", "directories", hex.EncodeToString(sum[:])+".json"), filepath.IsAbs(state)
}

// settle records id as the latest run of a directory, given by its resolved path.
func settle(directory string, id stream.RunID) error {
	path, _ := directoryFile(directory)
	b, err := json.Marshal(settled{directoryFormat, directory, id})
	ctx := context.Background()
	if err == nil {
		err = store.MkdirAll(ctx, filepath.Dir(path), 0o700)
	}
	if err == nil {
		err = store.WriteFile(ctx, path, store.Options{Mode: 0o600}, append(b, '\n'))
	}
	if err != nil {
		return fmt.Errorf("registry: record of a run directory: %w", err)
	}
	return nil
}

// lastRun returns the latest recorded run of a directory, given by its resolved path. A record that
// cannot be read counts as unknown here; [Damaged] names it.
func lastRun(directory string) (id stream.RunID, known bool) {
	path, known := directoryFile(directory)
	if !known {
		return id, false
	}
	s, err := readDirectory(context.Background(), path)
	if err != nil || s.Directory != directory {
		return id, false
	}
	return s.RunID, true
}

func readDirectory(ctx context.Context, path string) (s settled, err error) {
	b, err := store.ReadFile(ctx, path, maxRecord)
	if err != nil {
		return s, err
	}
	if err = strictjson.Unmarshal(b, &s); err == nil && s.Format != directoryFormat {
		err = errors.New("registry: is not a record of a run directory")
	}
	return s, err
}

// LaterRun returns the latest run of a run directory where run.json is of an earlier one, as after
// a backup was put back. It returns the zero id where no later run is known. It reads the user's
// records, as [CopyOf] does.
func LaterRun(ctx context.Context, dir string) (later stream.RunID) {
	run, err := manifest.ReadRun(ctx, dir)
	if err != nil {
		return later
	}
	last, known := lastRun(store.Resolved(dir))
	if !known || slices.Contains(run.Used(), last) {
		return later
	}
	for _, r := range OfThisUser(run.RunID) {
		if place, err := PlaceOf(ctx, r.Directory, dir, run.RunID); err == nil && place == PlaceSame {
			return last
		}
	}
	return later // the earlier run was moved here from elsewhere
}

// RunsOf returns all runs that a run directory has had according to the user's records, also those
// that a restored backup no longer names. It returns none where no record places the current run in
// this directory.
func RunsOf(ctx context.Context, dir string) (ids []stream.RunID) {
	run, err := manifest.ReadRun(ctx, dir)
	state, _ := stateFolder()
	if err != nil || !filepath.IsAbs(state) {
		return nil
	}
	folders, err := store.List(ctx, filepath.Join(state, "minsep", "runs"))
	if err != nil {
		return nil
	}
	for _, key := range folders {
		f := recordFolder{path: filepath.Join(state, "minsep", "runs", key.Name)}
		files, err := store.List(ctx, f.path)
		if err != nil {
			continue
		}
		for _, file := range files {
			id, err := stream.ParseRunID(strings.TrimSuffix(file.Name, ".json"))
			if err != nil {
				continue
			}
			if r, err := readRecord(f.record(id), id); err == nil && r.Directory == store.Resolved(dir) && !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
		}
	}
	if !slices.Contains(ids, run.RunID) {
		return nil
	}
	return ids
}

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

	"minsep/internal/store"
	"minsep/internal/strictjson"
	"minsep/manifest"
	"minsep/sampling/stream"
)

// directoryFormat is the format of a run directory's record.
const directoryFormat = "minsep-directory/1"

// settled is the run that a directory had last. It is kept in the user's state folder, by the hash
// of the directory's name, so that a backup of an earlier run in its place is noticed.
type settled struct {
	Format    string       `json:"format"`
	Directory string       `json:"directory"`
	RunID     stream.RunID `json:"run_id"`
}

// directoryFile is where that is kept. The state folder may be unknown.
func directoryFile(directory string) (path string, known bool) {
	state, _ := stateFolder()
	sum := sha256.Sum256([]byte(directory))
	return filepath.Join(state, "minsep", "directories", hex.EncodeToString(sum[:])+".json"), filepath.IsAbs(state)
}

// settle remembers the run of a directory, a resolved name.
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

// lastRun is the run that a directory, a resolved name, had last as far as is known. A record
// that cannot be read counts as not known.
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

// LaterRun is a run that was made in a run directory after the one that is there now, which was
// put back, as from a backup; the zero id where none is known. It asks the user's records, as
// [CopyOf] does.
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
	return later // moved here
}

// RunsOf are the runs that a run directory had, as far as the user's records know: of those that a
// backup in its place has forgotten too. There are none where the directory is not the one of its
// run's record.
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

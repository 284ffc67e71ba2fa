package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"minsep/internal/store"
	"minsep/manifest"
	"minsep/sampling/stream"
)

// TrainingSteps is how many steps a training with the noise of a run has taken, as the StepGuard of
// the Python package records it in the run directory and in the user's state folder; 0 where
// nothing is recorded. A record that cannot be read counts as one of all steps.
func TrainingSteps(ctx context.Context, dir string, id stream.RunID) (steps int) {
	paths := []string{store.Join(dir, manifest.TrainingRecord)}
	if state, _ := stateFolder(); filepath.IsAbs(state) {
		paths = append(paths, filepath.Join(state, "minsep", "trainings", id.String()+".json"))
	}
	for _, path := range paths {
		steps = max(steps, trainingSteps(ctx, path, id))
	}
	return steps
}

// AllSteps is the answer of [TrainingSteps] for a record that cannot be read.
const AllSteps = int(^uint(0) >> 1)

func trainingSteps(ctx context.Context, path string, id stream.RunID) int {
	b, err := store.ReadFile(ctx, path, maxRecord)
	if errors.Is(err, fs.ErrNotExist) || err == nil && len(b) == 0 { // an empty one is of a guard that was refused
		return 0
	}
	var r struct {
		RunID stream.RunID `json:"run_id"`
		Taken string       `json:"taken"`
	}
	if err != nil || json.Unmarshal(b, &r) != nil {
		return AllSteps
	}
	if r.RunID != id {
		return 0
	}
	taken, err := strconv.Atoi(r.Taken)
	if err != nil || taken < 0 {
		return AllSteps
	}
	return taken
}

// Streamed reports whether noise of the coordinates [first, end) has been streamed before, to a
// program without a guard, as far as the user's state folder remembers. Unless dry, it remembers
// that this is done now: as a file for each range, so that streams that begin at once need not wait
// for each other.
func (g *Registry) Streamed(id stream.RunID, first, end int64, dry bool) (before bool, err error) {
	state, err := stateFolder()
	if err != nil {
		return false, err
	}
	dir := filepath.Join(state, "minsep", "streams", id.String())
	ctx := context.Background()
	own := fmt.Sprintf("%d-%d", first, end)
	if !dry {
		if err := store.MkdirAll(ctx, dir, 0o700); err != nil {
			return false, fmt.Errorf("registry: record of streams: %w", err)
		}
		err := store.WriteFile(ctx, filepath.Join(dir, own), store.Options{Mode: 0o600, New: true}, []byte("coordinates of noise that were streamed\n"))
		if before = errors.Is(err, fs.ErrExist); err != nil && !before {
			return false, fmt.Errorf("registry: record of streams: %w", err)
		}
	}
	entries, err := store.List(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("registry: record of streams: %w", err)
	}
	for _, e := range entries {
		var a, b int64
		if _, err := fmt.Sscanf(e.Name, "%d-%d", &a, &b); err == nil && a < end && first < b && (dry || e.Name != own) {
			before = true
		}
	}
	return before, nil
}

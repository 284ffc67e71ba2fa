package registry

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strconv"

	"minsep/internal/manifest"
	"minsep/internal/store"
	"minsep/internal/stream"
)

// trainingFormat is the format of the training records that the Python package writes.
const trainingFormat = "minsep-training/1"

// AllSteps is the result of [TrainingSteps] where a record cannot be read.
const AllSteps = int(^uint(0) >> 1)

// TrainingSteps returns how many steps a training has taken with the noise of a run: the larger of
// the numbers that the StepGuard of the Python package keeps in the run directory and in the user's
// state folder. It is 0 without a record. A record that cannot be read, or is not a training
// record, counts as [AllSteps], since it may hide a training.
func TrainingSteps(ctx context.Context, dir string, id stream.RunID) (steps int) {
	for _, path := range trainingRecords(dir, id) {
		steps = max(steps, trainingSteps(ctx, path, id))
	}
	return steps
}

// trainingRecords returns the paths of the training records of a run; the first is in dir.
func trainingRecords(dir string, id stream.RunID) []string {
	paths := []string{store.Join(dir, manifest.TrainingRecord)}
	if state, _ := stateFolder(); filepath.IsAbs(state) {
		paths = append(paths, filepath.Join(state, "minsep", "trainings", id.String()+".json"))
	}
	return paths
}

// trainingSteps reads one record; a record of another run counts as no steps.
func trainingSteps(ctx context.Context, path string, id stream.RunID) int {
	of, steps, err := readTraining(ctx, path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return 0
	case err != nil:
		return AllSteps
	case of != id:
		return 0
	}
	return steps
}

var errNoTraining = errors.New("registry: is not a record of a training")

// readTraining reads a training record: its run, and the number of steps taken.
func readTraining(ctx context.Context, path string) (of stream.RunID, steps int, err error) {
	b, err := store.ReadFile(ctx, path, maxRecord)
	if err != nil {
		return of, 0, err
	}
	var r struct {
		Format string        `json:"format"`
		RunID  *stream.RunID `json:"run_id"`
		Taken  string        `json:"taken"`
	}
	if json.Unmarshal(b, &r) != nil || r.Format != trainingFormat || r.RunID == nil {
		return of, 0, errNoTraining
	}
	if steps, err = strconv.Atoi(r.Taken); err != nil || steps < 0 {
		return of, 0, errNoTraining
	}
	return *r.RunID, steps, nil
}

// Damaged returns the paths of a run's records that exist but cannot be read, for instance because
// they were emptied. Such a record might have said that the directory is a copy, had a later run or
// served a training. Damaged reads the records that [CopyOf], [LaterRun] and [TrainingSteps] read.
func Damaged(ctx context.Context, dir string) (paths []string) {
	add := func(path string, err error) {
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			paths = append(paths, path)
		}
	}
	path := store.Join(dir, manifest.TrainingRecord)
	_, _, err := readTraining(ctx, path)
	add(path, err)
	if path, known := directoryFile(store.Resolved(dir)); known {
		_, err := readDirectory(ctx, path)
		add(path, err)
	}
	run, err := manifest.ReadRun(ctx, dir)
	if err != nil { // inspection reports it
		return paths
	}
	for _, path := range trainingRecords(dir, run.RunID)[1:] {
		_, _, err := readTraining(ctx, path)
		add(path, err)
	}
	for _, path := range recordsOfThisUser(run.RunID) {
		_, err := readRecord(path, run.RunID)
		add(path, err)
	}
	return paths
}

// rangeName is the name of the record of a range of coordinates.
func rangeName(first, end int64) string { return fmt.Sprintf("%d-%d", first, end) }

// Streamed reports whether noise of some coordinate in [first, end) was streamed before to a
// program without a step guard, according to the user's state folder. Unless dry, it records the
// range as streamed. Each range has a file of its own, so that streams that begin together need not
// wait for each other.
func (g *Registry) Streamed(id stream.RunID, first, end int64, dry bool) (before bool, err error) {
	state, err := stateFolder()
	if err != nil {
		return false, err
	}
	dir := filepath.Join(state, "minsep", "streams", id.String())
	ctx := context.Background()
	own := rangeName(first, end)
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
		if _, err := fmt.Sscanf(e.Name, "%d-%d", &a, &b); err != nil || e.Name != rangeName(a, b) {
			continue
		}
		if a < end && first < b && (dry || e.Name != own) {
			before = true
		}
	}
	return before, nil
}

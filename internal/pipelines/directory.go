package pipelines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"minsep/internal/manifest"
	"minsep/internal/param"
	"minsep/internal/stages"
	"minsep/internal/store"
	"minsep/internal/words"
)

// lock makes the run directory this process's alone until the work ends. A job that is only
// translated gets a temporary folder in its place.
func (w *work) lock() (err error) {
	switch {
	case w.set.Held:
	case w.jobs.translates:
		w.path, err = os.MkdirTemp("", "minsep-translated-")
		w.end = func() { os.RemoveAll(w.path) }
	default:
		w.end, err = manifest.TakeLock(w.path)
	}
	return err
}

// mayWrite returns the error that a stage would meet later because its folder holds a result.
func (w *work) mayWrite(ctx context.Context, folder string) error {
	dir := store.Join(w.path, folder)
	if _, err := manifest.Read(ctx, dir); err == nil {
		return fmt.Errorf("folder %s: %w", dir, manifest.ErrExists)
	}
	return nil
}

// HasRoom refuses a result that does not fit into the free space, before its first byte. It accepts
// a folder that exists in the run directory: part of the result may be in it, and replaced files
// make room.
func HasRoom(ctx context.Context, out string, bytes int64, folders ...string) error {
	for _, folder := range folders {
		if _, err := store.Stat(ctx, store.Join(out, folder)); err == nil {
			return nil
		}
	}
	free, known := store.Free(out)
	if !known || bytes <= free {
		return nil
	}
	rule := fmt.Sprintf(
		"has no room: about %s bytes are needed for %s, %s are free",
		words.Grouped(bytes),
		strings.Join(folders, " and "),
		words.Grouped(free),
	)
	if slices.Contains(folders, manifest.NoiseFolder) {
		rule += "; noise takes none without noise --files, and without \"files\": true in a plan's noise: the trainer then reads it as a stream"
	}
	return &param.Error{Param: "out", Value: out, Rule: rule}
}

// copyTo returns the place to which the table of another run directory must be copied, since
// batches are of no use without the table of their rows. It returns "" if the table is there, or if
// there is none.
func (w *work) copyTo(ctx context.Context, x stages.Source) (string, error) {
	if x.Table == nil || w.jobs.translates {
		return "", nil
	}
	dir := store.Join(w.path, manifest.BoundedFolder)
	_, err := manifest.DigestOf(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) {
		return dir, nil
	}
	return "", err // another table does not agree
}

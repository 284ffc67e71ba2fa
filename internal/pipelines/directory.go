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
func (w *work) mayWrite(ctx context.Context, o output) error {
	dir := store.Join(w.path, o.folder)
	if _, err := manifest.Read(ctx, dir); err == nil {
		return exists(dir, o.params)
	}
	return nil
}

// exists returns the error for a folder with a finished result. It says in what its parameters differ
// from those that were asked for.
func exists(dir string, params any) error {
	of := "of these same parameters"
	there, err := manifest.Read(context.Background(), dir)
	now, _, _ := manifest.Params(params) // which were encoded before
	if err != nil {
		of = "of parameters that cannot be read"
	} else if differs := stages.JSONDifferences(there.Params, now, "asked for now"); differs != nil {
		of = "of other parameters (" + strings.Join(differs, "; ") + ")"
	}
	return fmt.Errorf("folder %s: is %s: %w", dir, of, manifest.ErrExists)
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

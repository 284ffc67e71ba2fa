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
	"minsep/internal/stream"
	"minsep/internal/words"
)

// ErrLocked says that another command is writing in the run directory.
var ErrLocked = errors.New("another minsep command is writing there: wait for it to end, or stop it")

// Lock keeps every other command out of a run directory.
type Lock struct{ release func() }

// TakeLock takes the lock of a run directory, and makes the directory if it is missing: see
// [store.LockFolder]. The lock ends with this process at the latest. If another command has it, the
// error wraps [ErrLocked].
func TakeLock(out string) (*Lock, error) {
	release, err := store.LockFolder(out, manifest.LockName, manifest.PublicDir, manifest.PublicFile)
	if errors.Is(err, store.ErrLocked) {
		err = ErrLocked
	}
	if err != nil {
		return nil, fmt.Errorf("run directory %s: %w", out, err)
	}
	return &Lock{release}, nil
}

// Release gives the lock back, and removes the directory if TakeLock made it and nothing is in it.
func (l *Lock) Release() { l.release() }

// directory is the run directory in which a stage writes.
type directory struct {
	path      string
	discarded bool  // of a job that is only translated: existing files are not looked at, and new ones go to a temporary folder
	held      *Lock // of the caller; nil if there is none
}

// newDirectory returns the run directory of the options.
func newDirectory(o Options) *directory {
	return &directory{path: o.Out, discarded: o.Translates(), held: o.Held}
}

// lock makes the directory this process's alone until unlock is called.
func (d *directory) lock() (unlock func(), err error) {
	switch {
	case d.held != nil:
		return func() {}, nil
	case d.discarded:
		if d.path, err = os.MkdirTemp("", "minsep-translated-"); err != nil {
			return nil, err
		}
		d.held = &Lock{func() { os.RemoveAll(d.path) }}
	default:
		if d.held, err = TakeLock(d.path); err != nil {
			return nil, err
		}
	}
	return d.held.Release, nil
}

// look reads the results in the directory, except the one that the stage makes anew. It refuses
// batches and noise of another run id than the directory's and, unless root is nil, batches and
// noise made with another root key.
func (d *directory) look(ctx context.Context, remade string, root *stream.Root) (stages.Present, error) {
	if d.discarded {
		return stages.Present{}, nil
	}
	here, err := stages.ReadPresent(ctx, d.path, remade)
	if err != nil {
		return here, err
	}
	return here, here.OneTraining(root)
}

// mayWrite returns the error that a stage would meet later because its folder holds a result.
func (d *directory) mayWrite(ctx context.Context, folder string) error {
	dir := store.Join(d.path, folder)
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
	return &ParamError{Param: "out", Value: out, Rule: rule}
}

// copyTo returns the place to which the table of another run directory must be copied, since
// batches are of no use without the table of their rows. It returns "" if the table is there, or if
// there is none.
func (d *directory) copyTo(ctx context.Context, x stages.Source) (string, error) {
	if x.Table == nil || d.discarded {
		return "", nil
	}
	dir := store.Join(d.path, manifest.BoundedFolder)
	switch digest, err := manifest.DigestOf(ctx, dir); {
	case errors.Is(err, fs.ErrNotExist):
		return dir, nil
	case err != nil:
		return "", err
	case digest != x.Table.Digest:
		return "", param.Fault(
			"out",
			d.path,
			"holds a bounded table that is not the given one: give that run directory, or another --out",
		)
	}
	return "", nil
}

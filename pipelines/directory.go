package pipelines

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"

	"minsep/internal/store"
	"minsep/manifest"
	"minsep/mechanism/noise"
	"minsep/sampling/stream"
	"minsep/stages"
)

// ErrLocked says that another command is writing in the run directory.
var ErrLocked = errors.New("another minsep command is writing there: wait for it to end, or stop it")

// Lock keeps every other command out of a run directory.
type Lock struct{ release func() }

// TakeLock takes the lock of a run directory, which is made if it is not there: see
// [store.LockFolder]. It ends with this process at the latest. Where another command has it, the
// error wraps [ErrLocked].
func TakeLock(out string) (*Lock, error) {
	release, err := store.LockFolder(out, manifest.LockName, manifest.PublicDir, manifest.PublicFile)
	if errors.Is(err, store.ErrLocked) {
		err = ErrLocked
	}
	if err != nil {
		return nil, fmt.Errorf("pipelines: run directory %s: %w", out, err)
	}
	return &Lock{release}, nil
}

// Release gives the lock back, and removes the directory if TakeLock made it and nothing is in it.
func (l *Lock) Release() { l.release() }

// directory is the run directory that a stage writes in.
type directory struct {
	path      string
	run       stream.RunID // that is asked for; zero for the directory's own, or a fresh one
	overwrite bool         // a finished result may be replaced
	replaced  []string     // results that are not looked at
	discarded bool         // of a job that is only translated: what is there is not looked at, and what is written goes to a temporary folder
	held      *Lock        // of the caller; nil if there is none
}

func (o Options) directory() *directory {
	return &directory{path: o.Out, run: o.RunID, overwrite: o.Overwrite, replaced: o.Replaced, discarded: o.Translates(), held: o.Held}
}

// lock makes the directory this process's alone until unlock is called.
func (d *directory) lock() (unlock func(), err error) {
	switch {
	case d.held != nil:
		return func() {}, nil
	case d.discarded:
		if d.path, err = os.MkdirTemp("", "minsep-translated-"); err != nil {
			return nil, fmt.Errorf("pipelines: %w", err)
		}
		d.held = &Lock{func() { os.RemoveAll(d.path) }}
	default:
		if d.held, err = TakeLock(d.path); err != nil {
			return nil, err
		}
	}
	return d.held.Release, nil
}

// look reads what is in the directory, but for the result that the stage makes anew. It refuses
// batches and noise that are not of the directory's run id or, unless root is nil, not made with
// that root key.
func (d *directory) look(ctx context.Context, remade string, root *stream.Root) (stages.Present, error) {
	if d.discarded {
		return stages.Present{}, nil
	}
	here, err := stages.ReadPresent(ctx, d.path, append(slices.Clone(d.replaced), remade)...)
	if err != nil {
		return here, err
	}
	return here, here.OneTraining(root)
}

// mayWrite returns the error that a stage would meet because its folder holds a result.
func (d *directory) mayWrite(ctx context.Context, folder string) error {
	dir := store.Join(d.path, folder)
	if _, err := manifest.Read(ctx, dir); err == nil && !d.overwrite {
		return fmt.Errorf("pipelines: folder %s: %w", dir, manifest.ErrExists)
	}
	return nil
}

// registered refuses, before anything is written, a registry that cannot be written to, and a
// training run that is not the one which the registry has for the run id: that of the run
// directory, or the one that is asked for. Empty fields of want are not compared.
func (w *work) registered(want noise.Record) error {
	g, err := noise.OpenRegistry(w.root, w.set.KeyFile)
	if err != nil || w.jobs.translates {
		return err
	}
	if err := g.Writable(w.set.DryRun); err != nil {
		return err
	}
	want.RunID = w.set.RunID
	if want.RunID == (stream.RunID{}) {
		if want.RunID = w.here.RunID(); want.RunID == (stream.RunID{}) {
			return nil // a new id
		}
	}
	want.Directory = store.Resolved(w.set.Out)
	return g.Check(want)
}

// HasRoom refuses a result that does not fit into what is free, before its first byte. Of a folder
// of the run directory that is there it says nothing: part of the result may be in it, and what is
// replaced makes room.
func HasRoom(ctx context.Context, out string, bytes int64, folders ...string) error {
	for _, folder := range folders {
		if _, err := store.Stat(ctx, store.Join(out, folder)); err == nil {
			return nil
		}
	}
	if free, known := store.Free(out); known && bytes > free {
		return &ParamError{Package: "pipelines", Param: "out", Value: out,
			Rule: fmt.Sprintf("has no room: about %d bytes are needed for %s, %d are free", bytes, strings.Join(folders, " and "), free)}
	}
	return nil
}

// copyTo is where a table of another run directory must be copied to, since batches are of no use
// without the table that they number: "" if it is there, or if there is none.
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
		return "", &ParamError{Package: "pipelines", Param: "out", Value: d.path, Rule: "holds another bounded table than the one given: give that run directory or another --out"}
	}
	return "", nil
}

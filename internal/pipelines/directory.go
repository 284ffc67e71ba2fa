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
	"minsep/internal/registry"
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
		return nil, fmt.Errorf("pipelines: run directory %s: %w", out, err)
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

// directory returns the run directory of the options.
func (o Options) directory() *directory {
	return &directory{path: o.Out, discarded: o.Translates(), held: o.Held}
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
		return fmt.Errorf("pipelines: folder %s: %w", dir, manifest.ErrExists)
	}
	return nil
}

// registered makes two checks before anything is written. It refuses a registry that cannot be
// written to. It also refuses a training run other than the one that the registry has for the run
// id of the run directory; empty fields of want are not compared. A
// run directory that was moved is recorded at its new place: see [InPlace]. found is the record of
// the run id, nil if there is none.
func (w *work) registered(ctx context.Context, want registry.Record) (found *registry.Record, err error) {
	g, err := registry.Open(w.root, w.set.KeyFile)
	if err != nil || w.jobs.translates {
		return nil, err
	}
	if err := g.Writable(w.set.DryRun); err != nil {
		return nil, err
	}
	want.RunID = w.here.RunID()
	if want.RunID == (stream.RunID{}) {
		return nil, nil // a new id
	}
	found, _, err = g.Find(want.RunID)
	if err != nil || found == nil {
		return nil, err
	}
	want.Directory = store.Resolved(w.set.Out)
	here, err := InPlace(ctx, g, *found, w.set)
	if err != nil {
		return found, err
	}
	if here {
		want.Directory = "" // not compared again: in a dry run the record is as before
	}
	return found, g.Check(want)
}

// claim records that the run of the directory serves a training run. want has the fields that are
// known.
func (w *work) claim(run manifest.Run, want registry.Record) error {
	if w.jobs.translates {
		return nil
	}
	records, err := registry.Open(w.root, w.set.KeyFile)
	if err != nil {
		return err
	}
	want.RunID, want.Directory = run.RunID, w.dir.path
	if run.Plan != nil {
		if want.PlanSHA256, err = stages.TrainingDigest(run.Plan.Plan); err != nil {
			return err
		}
	}
	return records.Claim(want)
}

// InPlace refuses a run directory that is a copy of the one that its run id has in the registry.
// For a directory that was moved, it records the new place and tells the user. here is false if it
// cannot be known, since one of the two places is in an object store and the other is not.
func InPlace(ctx context.Context, g *registry.Registry, found registry.Record, o Options) (here bool, err error) {
	place, err := registry.PlaceOf(ctx, found.Directory, o.Out, found.RunID)
	if err != nil {
		return false, err
	}
	switch place {
	case registry.PlaceCopy:
		return false, &registry.ClaimError{RunID: found.RunID, What: "copy", Directory: found.Directory}
	case registry.PlaceMoved:
		o.tell("run directory %s: its run id is recorded for %s, which is not there any more: it counts as moved here. If it was copied, and a training used the other copy, train no second time from this one",
			o.Out, found.Directory)
	}
	if later := registry.LaterRun(ctx, o.Out); place == registry.PlaceSame && later != (stream.RunID{}) {
		o.tell("run directory %s: run %v was made here later, and run %v is here again, as from a backup: a training may have used its batches and noise before. Go on with that training; for another one use minsep run --again",
			o.Out, later, found.RunID)
	}
	if !o.DryRun && place != registry.PlaceUnknown && found.Directory != store.Resolved(o.Out) {
		err = g.Move(found, o.Out)
	}
	return place != registry.PlaceUnknown, err
}

// TellCopy tells the user that a run directory is a copy of another one. It is for commands that
// need no key and write no record.
func TellCopy(ctx context.Context, o Options) {
	if original := registry.CopyOf(ctx, o.Out); original != "" {
		o.tell("run directory %s is a copy of %s, with the same batches and noise: train in one of the two only. minsep run --again gives a copy batches and noise of its own", o.Out, original)
	}
}

// MadeAgain tells the user that batches or noise that are about to be made were made before, by the
// record found of the run id; nil stands for no record. It says nothing of a finished folder, which
// is replaced, or of an unfinished one, which was stopped: nothing is lost then.
func MadeAgain(ctx context.Context, o Options, folder string, found *registry.Record) error {
	dir := store.Join(o.Out, folder)
	finished, errFinished := manifest.Finished(ctx, dir)
	interrupted, errInterrupted := manifest.Interrupted(ctx, dir)
	if err := errors.Join(errFinished, errInterrupted); err != nil {
		return err
	}
	if found == nil || folder == manifest.NoiseFolder && !found.HasNoise() || finished || interrupted {
		return nil
	}
	o.tell("%s: run id %v has had its %s before, or a command had begun to make them: the same bytes are made again. That is for files that were lost: a second training on them would have the same batches and noise, "+
		"whose difference shows; for another training use minsep run --again, or another --out with a new run id", o.Out, found.RunID, folder)
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
	rule := fmt.Sprintf("has no room: about %s bytes are needed for %s, %s are free", words.Grouped(bytes), strings.Join(folders, " and "), words.Grouped(free))
	if slices.Contains(folders, manifest.NoiseFolder) {
		rule += "; noise takes none without noise --files, and without \"files\": true in a plan's noise: the trainer then reads it as a stream"
	}
	return &ParamError{Package: "pipelines", Param: "out", Value: out, Rule: rule}
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
		return "", &ParamError{Package: "pipelines", Param: "out", Value: d.path, Rule: "holds a bounded table that is not the given one: give that run directory, or another --out"}
	}
	return "", nil
}

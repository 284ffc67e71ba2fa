package pipelines

import (
	"errors"
	"fmt"
	"os"

	"minsep/internal/store"
	"minsep/manifest"
)

// ErrLocked says that another command is writing in the run directory.
var ErrLocked = errors.New("another minsep command is writing there: wait for it to end, or stop it")

// Lock keeps every other command out of the run directory until unlock is called or this process ends: see [store.LockFolder].
//
// The returned options are for the work under the lock. Stages that a plan runs are under the plan's. A job that is only translated has
// a temporary run directory, which unlock removes.
func (o Options) Lock() (locked Options, unlock func(), err error) {
	if o.Translates() && !o.locked {
		if o.Out, err = os.MkdirTemp("", "minsep-translated-"); err != nil {
			return o, nil, fmt.Errorf("pipelines: %w", err)
		}
		dir := o.Out
		o.locked = true
		return o, func() { os.RemoveAll(dir) }, nil
	}
	if o.locked {
		return o, func() {}, nil
	}
	unlock, err = store.LockFolder(o.Out, manifest.LockName, manifest.PublicDir, manifest.PublicFile)
	if errors.Is(err, store.ErrLocked) {
		err = ErrLocked
	}
	if err != nil {
		return o, nil, fmt.Errorf("pipelines: run directory %s: %w", o.Out, err)
	}
	o.locked = true
	return o, unlock, nil
}

package pipelines

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"minsep/internal/store"
	"minsep/manifest"
)

// ErrLocked says that another command is writing in the run directory.
var ErrLocked = errors.New("another minsep command is writing there: wait for it to end, or stop it")

// lock keeps every other command out of the run directory until unlock is called or this process ends, however it ends: the
// system holds the lock, on an open file, and a file that a killed process has left locks nothing. It makes the directory,
// and unlock removes it if it is still empty. A run directory in an object store is not locked here: what is written
// there is written under preconditions. Neither is one on a system without such locks.
//
// The returned options are for the work under the lock. Stages that a plan runs are under the plan's. A job that is only translated has
// a temporary run directory, which unlock removes.
func (o Options) lock() (locked Options, unlock func(), err error) {
	if o.translates() && !o.locked {
		if o.Out, err = os.MkdirTemp("", "minsep-translated-"); err != nil {
			return o, nil, fmt.Errorf("pipelines: %w", err)
		}
		dir := o.Out
		o.locked = true
		return o, func() { os.RemoveAll(dir) }, nil
	}
	if o.locked || !store.IsLocal(o.Out) {
		return o, func() {}, nil
	}
	dir := filepath.Clean(strings.TrimPrefix(o.Out, "file://"))
	if err := os.MkdirAll(filepath.Dir(dir), manifest.PublicDir); err != nil {
		return o, nil, fmt.Errorf("pipelines: run directory %s cannot be made: %w", o.Out, err)
	}
	err = os.Mkdir(dir, manifest.PublicDir)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return o, nil, fmt.Errorf("pipelines: run directory %s cannot be made: %w", o.Out, err)
	}
	made := err == nil
	removeEmpty := func() {
		if made {
			os.Remove(dir) // fails if anything is in it
		}
	}
	release, err := lockFile(filepath.Join(dir, manifest.LockName))
	if err != nil {
		removeEmpty()
		return o, nil, fmt.Errorf("pipelines: run directory %s: %w", o.Out, err)
	}
	o.locked = true
	return o, func() { release(); removeEmpty() }, nil
}

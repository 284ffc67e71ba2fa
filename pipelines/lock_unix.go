//go:build unix

package pipelines

import (
	"errors"
	"os"
	"syscall"

	"minsep/manifest"
)

// lockFile makes the file if it is not there, and locks it. release removes it.
func lockFile(path string) (release func(), err error) {
	for {
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, manifest.PublicFile)
		if err != nil {
			return nil, err
		}
		switch err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); {
		case errors.Is(err, syscall.EWOULDBLOCK):
			f.Close()
			return nil, ErrLocked
		case err != nil:
			f.Close()
			return nil, &os.PathError{Op: "lock", Path: path, Err: err}
		}
		// Whoever held the lock may have removed the file between our opening and our locking it: then it is another's
		// by now, or nobody's.
		if mine, err := f.Stat(); err == nil {
			if there, err := os.Stat(path); err == nil && os.SameFile(mine, there) {
				return func() { os.Remove(path); f.Close() }, nil
			}
		}
		f.Close()
	}
}

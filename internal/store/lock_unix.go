//go:build unix

package store

import (
	"errors"
	"os"
	"syscall"
)

// canLock says that [TryLock] locks.
const canLock = true

// TryLock locks a local file until it is closed or this process ends, however it ends. A file that
// is locked already is [ErrLocked]. On systems without such locks it does nothing: the user sees to
// it that one process writes.
func TryLock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return nil
	}
	return lockFault(f, errors.Is(err, syscall.EWOULDBLOCK), err)
}

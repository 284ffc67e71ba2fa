//go:build unix

package store

import (
	"errors"
	"os"
	"syscall"
)

// canLock says whether [TryLock] locks.
const canLock = true

// TryLock locks a local file until it is closed or this process ends in any way. If another process
// holds the lock, the error wraps [ErrLocked]. On systems without such locks TryLock does nothing,
// and the user must make sure that only one process writes.
func TryLock(f *os.File) error {
	err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if err == nil {
		return nil
	}
	return lockFault(f, errors.Is(err, syscall.EWOULDBLOCK), err)
}

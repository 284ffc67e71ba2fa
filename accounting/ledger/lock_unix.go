//go:build unix

package ledger

import (
	"os"
	"syscall"
)

// lock keeps other processes out until f is closed or the process ends, however it ends.
func lock(f *os.File) error { return syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) }

package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// setDirect makes the writes to a file go past the system's cache, or through it again, and reports
// whether it could.
func setDirect(f *os.File, on bool) (ok bool) {
	flags := 0
	if on {
		flags = unix.O_DIRECT
	}
	raw, err := f.SyscallConn()
	if err != nil {
		return false
	}
	raw.Control(func(fd uintptr) { _, err = unix.FcntlInt(fd, unix.F_SETFL, flags) })
	return err == nil
}

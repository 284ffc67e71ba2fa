package store

import (
	"os"

	"golang.org/x/sys/unix"
)

// setDirect makes the writes to a file go past the system's cache, if the file system can, or through
// it again.
func setDirect(f *os.File, on bool) {
	flags := 0
	if on {
		flags = unix.O_DIRECT
	}
	unix.FcntlInt(f.Fd(), unix.F_SETFL, flags)
}

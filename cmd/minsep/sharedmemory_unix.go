//go:build unix

package main

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// openMemory maps memory that another program shares through the descriptor of an unnamed file, as
// from memfd_create. A file with a name is refused: the secret noise would stay in it.
func openMemory(fd int) ([]byte, error) {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return nil, errors.New("must be an open file descriptor: " + err.Error())
	}
	if s.Mode&unix.S_IFMT != unix.S_IFREG || s.Nlink != 0 || s.Size == 0 {
		return nil, errors.New("must be of memory without a name, as memfd_create makes it")
	}
	b, err := unix.Mmap(fd, 0, int(s.Size), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	if err != nil {
		return nil, errors.New("cannot be mapped: " + err.Error())
	}
	return b, nil
}

// polled returns a pipe or socket as a file with reads that block in Go's poller, not in a system
// call. After a blocking system call Go's runtime wakes every 20 µs for a while, which took up to a
// tenth of a processor at the rate at which rows are requested.
func polled(in io.Reader) io.Reader {
	f, ok := in.(*os.File)
	if !ok {
		return in
	}
	fd := int(f.Fd())
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil || s.Mode&unix.S_IFMT != unix.S_IFIFO && s.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return in // not a terminal: the poller would make it non-blocking for other programs too
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil || unix.SetNonblock(own, true) != nil {
		return in
	}
	return os.NewFile(uintptr(own), f.Name())
}

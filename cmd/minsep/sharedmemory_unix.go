//go:build unix

package main

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// openMemory maps the memory that another program shares by the descriptor of a file without a
// name. A file with one would keep noise.
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

// polled returns a pipe or a socket as a file whose reads wait without a thread of their own. When
// a thread has waited in a system call, Go's runtime wakes every 20 µs for a while: up to a tenth
// of a processor's time, as rows are asked for.
func polled(in io.Reader) io.Reader {
	f, ok := in.(*os.File)
	if !ok {
		return in
	}
	fd := int(f.Fd())
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil || s.Mode&unix.S_IFMT != unix.S_IFIFO && s.Mode&unix.S_IFMT != unix.S_IFSOCK {
		return in // a terminal's other programs would read without waiting as well
	}
	own, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil || unix.SetNonblock(own, true) != nil {
		return in
	}
	return os.NewFile(uintptr(own), f.Name())
}

//go:build unix

package main

import (
	"errors"

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

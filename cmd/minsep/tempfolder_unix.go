//go:build unix

package main

import (
	"io"
	"os"
	"syscall"

	"minsep/internal/store"
)

// holdFile locks the file at path until the result is closed or the process ends.
func holdFile(path string) (io.Closer, error) {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	if err := store.TryLock(f); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// abandoned reports whether a process of this user on this machine held the file at path and has
// ended. In doubt it returns false.
func abandoned(path string) bool {
	f, err := os.OpenFile(path, os.O_RDWR|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return false
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return false
	}
	if owner, ok := info.Sys().(*syscall.Stat_t); !ok || int(owner.Uid) != os.Geteuid() {
		return false
	}
	machine, err := io.ReadAll(io.LimitReader(f, 1<<10))
	return err == nil && string(machine) == thisMachine() && store.TryLock(f) == nil
}

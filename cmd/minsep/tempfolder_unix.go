//go:build unix

package main

import (
	"io"
	"os"
	"syscall"

	"minsep/internal/store"
)

// holdFile locks a file until the result is closed or the process ends.
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

// abandoned reports that a file of this user and this machine was held by a process that has ended.
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

package main

import "golang.org/x/sys/unix"

// lasts reports whether a folder outlives the container or the machine's memory that it may be in.
// In doubt it returns true.
func lasts(folder string) bool {
	var fs unix.Statfs_t
	if unix.Statfs(folder, &fs) != nil {
		return true
	}
	return fs.Type != unix.OVERLAYFS_SUPER_MAGIC && fs.Type != unix.TMPFS_MAGIC
}

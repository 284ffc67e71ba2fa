//go:build linux || darwin

package store

import "syscall"

// free returns the number of bytes that an unprivileged user can still write to dir's file system.
func free(dir string) (bytes int64, known bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return 0, false
	}
	return int64(min(float64(s.Bavail)*float64(s.Bsize), 1<<62)), true
}

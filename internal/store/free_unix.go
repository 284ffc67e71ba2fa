//go:build linux || darwin

package store

import "syscall"

// free is how many bytes may still be written to the file system of a folder.
func free(dir string) (bytes int64, known bool) {
	var s syscall.Statfs_t
	if syscall.Statfs(dir, &s) != nil {
		return 0, false
	}
	return int64(min(float64(s.Bavail)*float64(s.Bsize), 1<<62)), true
}

//go:build unix

package store

import (
	"io/fs"
	"syscall"
)

// nonBlocking keeps the opening of a pipe without a writer from waiting for one. It changes nothing
// for regular files.
const nonBlocking = syscall.O_NONBLOCK

// noFollow keeps a link from being opened in place of a file: a file that is made, or written in
// place, must not be one elsewhere.
const noFollow = syscall.O_NOFOLLOW

// stored is how many bytes a file takes in its file system.
func stored(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(s.Blocks) * 512
	}
	return info.Size()
}

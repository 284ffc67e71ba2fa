//go:build unix

package store

import (
	"io/fs"
	"syscall"
)

// nonBlocking makes opening a pipe without a writer return at once. It has no effect on regular
// files.
const nonBlocking = syscall.O_NONBLOCK

// noFollow makes opening fail if the name is a link. A file that is created or written in place
// must not be somewhere else.
const noFollow = syscall.O_NOFOLLOW

// stored returns the number of bytes that the file system has allocated to a file.
func stored(info fs.FileInfo) int64 {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return int64(s.Blocks) * 512
	}
	return info.Size()
}

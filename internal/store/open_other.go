//go:build !unix

package store

import "io/fs"

// nonBlocking is nothing where a name in a folder cannot be a pipe.
const nonBlocking = 0

// noFollow is nothing on systems without it.
const noFollow = 0

// stored is how many bytes a file takes in its file system, where that can be known.
func stored(info fs.FileInfo) int64 { return info.Size() }

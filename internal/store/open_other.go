//go:build !unix

package store

import "io/fs"

// nonBlocking has no effect: names in a folder cannot be pipes here.
const nonBlocking = 0

// noFollow has no effect: there is no such flag here.
const noFollow = 0

// stored returns the size of a file: the number of bytes allocated to it is unknown here.
func stored(info fs.FileInfo) int64 { return info.Size() }

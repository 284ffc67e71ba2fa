//go:build !unix

package store

// nonBlocking is nothing where a name in a folder cannot be a pipe.
const nonBlocking = 0

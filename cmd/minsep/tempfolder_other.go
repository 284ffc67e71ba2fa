//go:build !unix

package main

import "io"

// holdFile does nothing where there is no flock.
func holdFile(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// abandoned is never certain where there is no flock.
func abandoned(string) bool { return false }

//go:build !unix

package main

import "io"

// holdFile does nothing: there is no flock here.
func holdFile(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// abandoned always returns false: without flock it cannot know.
func abandoned(string) bool { return false }

//go:build !unix

package main

// holdFile does nothing where there is no flock.
func holdFile(string) error { return nil }

// abandoned is never certain where there is no flock.
func abandoned(string) bool { return false }

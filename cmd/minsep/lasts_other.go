//go:build !linux

package main

// lasts reports whether a folder outlives the container that it may be in.
func lasts(string) bool { return true }

//go:build !linux

package store

// renameNew is for systems that can do it.
func renameNew(_, _ string) (ok bool, err error) { return false, nil }

//go:build !linux

package store

// renameNew is not supported here.
func renameNew(_, _ string) (ok bool, err error) { return false, nil }

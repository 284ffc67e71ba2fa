//go:build !linux

package store

import "os"

// setDirect does nothing.
func setDirect(*os.File, bool) bool { return false }

//go:build !unix

package store

import "os"

// canLock says whether [TryLock] locks.
const canLock = false

// TryLock does nothing: there are no locks here. The user must make sure that only one process
// writes.
func TryLock(*os.File) error { return nil }

//go:build !unix

package ledger

import "os"

// lock does nothing where there is no flock: the user sees to it that one process writes.
func lock(*os.File) error { return nil }

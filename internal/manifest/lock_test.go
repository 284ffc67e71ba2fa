package manifest_test

import (
	"testing"

	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/store"
)

// TestLockIsTakenBesideALook: a command that looks whether a directory is locked, as minsep inspect does,
// keeps no other command out of it.
func TestLockIsTakenBesideALook(t *testing.T) {
	out := t.TempDir()
	stop, looked := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(looked)
		for {
			select {
			case <-stop:
				return
			default:
				store.IsLocked(out, manifest.LockName)
			}
		}
	}()
	for range 200 {
		must.Get(manifest.TakeLock(out))(t)()
	}
	close(stop)
	<-looked
}

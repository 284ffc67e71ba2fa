package manifest

import (
	"errors"
	"fmt"
	"time"

	"minsep/internal/store"
)

// ErrLocked says that another command is writing in the run directory.
var ErrLocked = errors.New("another minsep command is writing there: wait for it to end, or stop it")

// A lock that is held is tried for a second: a command that inspects the folder holds it for a moment,
// to see whether it is locked.
const (
	lockTries = 20
	lockPause = 50 * time.Millisecond
)

// TakeLock keeps every other command out of a run directory until release is called, and makes the
// directory if it is missing: see [store.LockFolder]. The lock ends with this process at the latest.
// If another command has it, the error wraps [ErrLocked]. release removes the directory if TakeLock
// made it and nothing is in it.
func TakeLock(out string) (release func(), err error) {
	for range lockTries {
		if release, err = store.LockFolder(out, LockName, PublicDir, PublicFile); !errors.Is(err, store.ErrLocked) {
			break
		}
		time.Sleep(lockPause)
	}
	if errors.Is(err, store.ErrLocked) {
		err = ErrLocked
	}
	if err != nil {
		return nil, fmt.Errorf("run directory %s: %w", out, err)
	}
	return release, nil
}

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"minsep/internal/param"
)

// ErrLocked means that another process holds a lock.
var ErrLocked = errors.New("is locked by another process")

// LockFolder locks a folder by a lock on the file name in it, until unlock is called or this
// process ends. Meanwhile other processes get [ErrLocked]. The operating system ties the lock to
// the open file, so a file that a killed process leaves locks nothing. LockFolder makes the folder
// if it does not exist, and unlock removes it again if it is empty.
//
// A folder of an object store is not locked: its objects are written under preconditions. On a
// system without such locks nothing is locked.
func LockFolder(dir, name string, folderMode, fileMode fs.FileMode) (unlock func(), err error) {
	if !isLocal(dir) {
		return func() {}, nil
	}
	dir = filepath.Clean(localPath(dir))
	made, err := makeFolder(dir, folderMode, folderMode)
	if err != nil {
		return nil, err
	}
	removeEmpty := func() {
		if made {
			remove(dir) // fails unless it is empty
		}
	}
	release, err := lockFile(filepath.Join(dir, name), fileMode)
	if err != nil {
		removeEmpty()
		return nil, err
	}
	return func() { release(); removeEmpty() }, nil
}

// IsLocked reports whether a process holds the lock that [LockFolder] takes; false in an object store.
func IsLocked(dir, name string) bool {
	if !isLocal(dir) {
		return false
	}
	f, err := os.Open(filepath.Join(localPath(dir), name))
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(TryLock(f), ErrLocked)
}

// lockFile locks the file at path, which it makes if necessary. release removes the file.
func lockFile(path string, mode fs.FileMode) (release func(), err error) {
	if !canLock {
		return func() {}, nil
	}
	for {
		f, err := openToWrite(path, os.O_RDWR|os.O_CREATE|noFollow, mode)
		if err != nil {
			return nil, notALink(path, err)
		}
		if err := TryLock(f); err != nil {
			f.Close()
			return nil, err
		}
		// Its last holder may have removed the file between our opening and locking it. Then path
		// is another process's file by now, or nobody's.
		if isAt(f, path) {
			return func() { remove(path); f.Close() }, nil
		}
		f.Close()
	}
}

// notALink returns a clearer error if a file could not be opened because its name is a link. err is
// returned otherwise.
func notALink(name string, err error) error {
	if to, is := LinkTo(name); is {
		return &param.Error{
			Param: "file",
			Value: name,
			Rule:  "is a link to " + to + ", where nothing is written: remove the link",
		}
	}
	return err
}

// lockFault returns the error for a file that cannot be locked. held says that another process has
// the lock.
func lockFault(f *os.File, held bool, err error) error {
	if held {
		err = fmt.Errorf("%w (%w)", ErrLocked, err)
	}
	return fault("lock", f.Name(), err)
}

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"minsep/internal/param"
)

// ErrLocked says that another process holds a lock.
var ErrLocked = errors.New("is locked by another process")

// LockFolder takes the lock of a folder, a file of this name in it, until unlock is called or
// this process ends. Another process that asks for it meanwhile gets [ErrLocked]. The system
// holds the lock on an open file: the file that a killed process leaves locks nothing.
// LockFolder makes the folder where there is none, and unlock removes it if it is still empty.
//
// A folder of an object store is not locked: objects are written under preconditions. Nor is a
// folder on a system without such locks.
func LockFolder(dir, name string, folderMode, fileMode fs.FileMode) (unlock func(), err error) {
	if !isLocal(dir) {
		return func() {}, nil
	}
	dir = filepath.Clean(localPath(dir))
	if err := makeDirs(filepath.Dir(dir), folderMode); err != nil {
		return nil, err
	}
	err = makeDir(dir, folderMode)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	made := err == nil
	removeEmpty := func() {
		if made {
			remove(dir) // fails if anything is in it
		}
	}
	release, err := lockFile(filepath.Join(dir, name), fileMode)
	if err != nil {
		removeEmpty()
		return nil, err
	}
	return func() { release(); removeEmpty() }, nil
}

// lockFile makes the file if it is not there, and locks it. release removes it.
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
		// Whoever held the lock may have removed the file between our opening and our locking it:
		// then it is another's by now, or nobody's.
		if isAt(f, path) {
			return func() { remove(path); f.Close() }, nil
		}
		f.Close()
	}
}

// notALink is the error for a file that could not be opened to be written in place, where that is
// because its name is a link.
func notALink(name string, err error) error {
	if to, is := LinkTo(name); is {
		return &param.Error{Package: "store", Param: "file", Value: name, Rule: "is a link to " + to + ", where nothing is written: remove the link"}
	}
	return err
}

// lockFault is the error for a file that cannot be locked.
func lockFault(f *os.File, held bool, err error) error {
	if held {
		err = fmt.Errorf("%w (%w)", ErrLocked, err)
	}
	return fault("lock", f.Name(), err)
}

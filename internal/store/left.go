package store

import (
	"context"
	"crypto/rand"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// RemoveLeft removes temporary files that killed processes left in dir while they wrote files with
// names that begin with prefix. Files that any process is writing are locked and stay. On a system
// without locks the user must make sure that no other process writes to dir. An object store has no
// such files.
func RemoveLeft(ctx context.Context, dir, prefix string) error {
	if !isLocal(dir) {
		return nil
	}
	list, err := ListMade(ctx, dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name, TempPrefix+prefix) {
			if err := removeLeft(filepath.Join(localPath(dir), e.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// createTemp makes and locks a temporary file for the file base in dir. The name follows from base, so
// that the next writer of base removes the file that a killed process left, unless somebody is writing
// base already.
func createTemp(dir, base string, mode fs.FileMode) (path string, f *os.File, err error) {
	const maxName, suffix = 255, 27 // bytes of a file's name, and of a random end
	name := TempPrefix + base
	random := func() string { return filepath.Join(dir, name[:min(len(name), maxName-suffix)]+"-"+rand.Text()) }
	path = filepath.Join(dir, name)
	if len(name) > maxName || removeLeft(path) != nil {
		path = random()
	}
	for ; ; path = random() {
		f, err = openToWrite(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err != nil || !canLock {
			return path, f, err
		}
		err := TryLock(f)
		if err == nil && isAt(f, path) ||
			err != nil && !errors.Is(err, ErrLocked) { // some file systems have no locks
			return path, f, nil
		}
		f.Close() // before it was locked, another process took it for a left one, and is removing it
	}
}

// removeLeft removes the local file at path unless somebody is writing it.
func removeLeft(path string) error {
	if canLock {
		f, err := os.OpenFile(path, os.O_RDWR|nonBlocking, 0)
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if err != nil {
			return err
		}
		defer f.Close()
		if TryLock(f) != nil || !isAt(f, path) {
			return nil // somebody is writing it, or it has become a finished file
		}
	}
	if err := remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// isAt reports whether path still leads to the open file f.
func isAt(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}

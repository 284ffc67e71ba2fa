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

// RemoveLeft removes temporary files that killed processes left in dir. It takes files with an
// [Options.Temp] that begins with temp, which must not be empty. Files that any process is writing
// are locked and stay. On a system without locks the user must make sure that no other process
// writes to dir. An object store has no such files.
func RemoveLeft(ctx context.Context, dir, temp string) error {
	if !isLocal(dir) {
		return nil
	}
	list, err := ListMade(ctx, dir)
	if err != nil {
		return err
	}
	for _, e := range list {
		if strings.HasPrefix(e.Name, TempPrefix+temp) {
			if err := removeLeft(filepath.Join(localPath(dir), e.Name)); err != nil {
				return err
			}
		}
	}
	return nil
}

// createTemp makes and locks a temporary file for the file base in dir. With [Options.Temp] the
// name is random. Without it the name follows from base, unless somebody is writing base already:
// so the next writer of base removes the file that a killed process left.
func createTemp(dir, base string, o Options) (path string, f *os.File, err error) {
	path = filepath.Join(dir, writeName(base))
	if o.Temp != "" || len(writeName(base)) > maxName || removeLeft(path) != nil {
		path = randomTemp(dir, o)
	}
	for ; ; path = randomTemp(dir, o) {
		f, err = openToWrite(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, o.Mode)
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

// maxName is the largest number of bytes in the name of a file.
const maxName = 255

// writeName returns the name of a file while it is being written.
func writeName(base string) string { return TempPrefix + "write-" + base }

// randomTemp returns a temporary path that no other process uses.
func randomTemp(dir string, o Options) string {
	return filepath.Join(dir, TempPrefix+o.Temp+rand.Text())
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

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

// RemoveLeft removes the temporary files in a folder that have an [Options.Temp] beginning with
// temp, which must not be empty, and that nobody writes any more: a process that is killed
// leaves its own. Files that are being written, by this process or another one, are locked and
// stay. On a system without locks the user sees to it that one process writes. An object store
// has none.
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

// createTemp makes a temporary file for the file base in dir, and locks it: see RemoveLeft.
// Without [Options.Temp] its name is made of base, unless somebody writes that file already: so
// the file that a killed process has left goes when the same file is written again.
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
		if err == nil && isAt(f, path) || err != nil && !errors.Is(err, ErrLocked) { // there are file systems without locks
			return path, f, nil
		}
		f.Close() // another process took it for one that was left, before it was locked, and removes it
	}
}

// maxName is how many bytes a name may have in a folder.
const maxName = 255

// writeName is the name of a file while it is written.
func writeName(base string) string { return TempPrefix + "write-" + base }

func randomTemp(dir string, o Options) string {
	return filepath.Join(dir, TempPrefix+o.Temp+rand.Text())
}

// removeLeft is RemoveLeft for a folder of this machine.
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
			return nil // somebody writes it, or it is a finished file by now
		}
	}
	if err := remove(path); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// isAt says that a path leads to an open file.
func isAt(f *os.File, path string) bool {
	mine, err := f.Stat()
	if err != nil {
		return false
	}
	there, err := os.Stat(path)
	return err == nil && os.SameFile(mine, there)
}

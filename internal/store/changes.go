package store

import (
	"io/fs"
	"os"
)

// BeforeChange is called before each change of a local file or folder by this package, with the
// kind of change and the path. Only tests set it: these are the moments between which a process can
// be killed. Several goroutines may call it at once.
var BeforeChange func(kind, path string)

// beforeSyncDir is called before the names in a local folder are made durable. Only tests set it.
var beforeSyncDir func(dir string)

// changing tells the test, if there is one, of a change that follows.
func changing(kind, path string) {
	if BeforeChange != nil {
		BeforeChange(kind, path)
	}
}

// The functions below wrap functions of package os. Every change of a local file or folder by this
// package goes through them.

// makeDir makes one folder.
func makeDir(dir string, mode fs.FileMode) error {
	changing("mkdir", dir)
	return os.Mkdir(dir, mode)
}

// makeDirs makes a folder and its parents as far as they are missing.
func makeDirs(dir string, mode fs.FileMode) error {
	if info, err := os.Stat(dir); err != nil || !info.IsDir() {
		changing("mkdir", dir)
	}
	return os.MkdirAll(dir, mode)
}

// openToWrite opens a file for writing. With O_CREATE in flag it may create the file.
func openToWrite(path string, flag int, mode fs.FileMode) (*os.File, error) {
	changing("open", path)
	return os.OpenFile(path, flag, mode)
}

// syncFile makes the contents of a file durable.
func syncFile(f *os.File) error {
	changing("sync", f.Name())
	return f.Sync()
}

// rename replaces to by from in one step.
func rename(from, to string) error {
	changing("rename", to)
	return os.Rename(from, to)
}

// link gives a file a second name, which must be new.
func link(from, to string) error {
	changing("link", to)
	return os.Link(from, to)
}

// remove removes a file or an empty folder.
func remove(path string) error {
	changing("remove", path)
	return os.Remove(path)
}

// removeAll removes a file, or a folder with its contents.
func removeAll(path string) error {
	changing("remove", path)
	return os.RemoveAll(path)
}

// changeMode changes the permissions of a file or folder.
func changeMode(path string, mode fs.FileMode) error {
	changing("chmod", path)
	return os.Chmod(path, mode)
}

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

// Every change of a local file or folder by this package calls changing. The functions below do so for
// changes that several functions make.

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

// remove removes a file or an empty folder.
func remove(path string) error {
	changing("remove", path)
	return os.Remove(path)
}

package store

import (
	"io/fs"
	"os"
)

// BeforeChange is called before each change of a local file or folder by this package, with the
// kind of change and the path. Only tests set it: these are the moments between which a process can
// be killed. Several goroutines may call it at once.
var BeforeChange func(kind, path string)

func changing(kind, path string) {
	if BeforeChange != nil {
		BeforeChange(kind, path)
	}
}

// The functions below wrap functions of package os. Every change of a local file or folder by this
// package goes through them.

func makeDir(dir string, mode fs.FileMode) error {
	changing("mkdir", dir)
	return os.Mkdir(dir, mode)
}

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

func syncFile(f *os.File) error {
	changing("sync", f.Name())
	return f.Sync()
}

func rename(from, to string) error {
	changing("rename", to)
	return os.Rename(from, to)
}

func link(from, to string) error {
	changing("link", to)
	return os.Link(from, to)
}

func remove(path string) error {
	changing("remove", path)
	return os.Remove(path)
}

func removeAll(path string) error {
	changing("remove", path)
	return os.RemoveAll(path)
}

func changeMode(path string, mode fs.FileMode) error {
	changing("chmod", path)
	return os.Chmod(path, mode)
}

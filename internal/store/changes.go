package store

import (
	"io/fs"
	"os"
)

// BeforeChange, which only tests set, is called before each change of a local file or folder that
// this package makes, with its kind and the path: the moments between which a process can be
// killed. It may be called by many goroutines at once.
var BeforeChange func(kind, path string)

func changing(kind, path string) {
	if BeforeChange != nil {
		BeforeChange(kind, path)
	}
}

// The functions below stand for the functions of package os. Everything in this package that
// changes a local file or folder calls them.

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

// openToWrite opens a file, which flag may make.
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

package graphio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"minsep/internal/store"
)

// FS is where input files are: [Files], unless a program has another.
type FS interface {
	// Open opens a file whose name Expand gave.
	Open(ctx context.Context, name string) (File, error)
	// Expand returns the files that a path stands for, in order: a file stands for itself, a folder for the files
	// in it and in its folders, and a pattern for what matches it. Within folders, names that begin with "." or "_" are left
	// out. No file at all is an error.
	Expand(ctx context.Context, path string) ([]string, error)
}

// File is an open input file. Reads at different places may run at the same time.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64
}

// Files are the files of this machine and of object stores, by their names: see package store.
type Files struct{}

// Open opens a file.
func (Files) Open(ctx context.Context, name string) (File, error) {
	if store.IsLocal(name) {
		return Local{}.Open(ctx, name)
	}
	f, err := store.Open(ctx, name)
	if err != nil {
		return nil, cause(err)
	}
	return f, nil
}

// Expand says which files path stands for. In an object store as on this machine, folders are what is between slashes.
func (Files) Expand(ctx context.Context, path string) ([]string, error) {
	if store.IsLocal(path) {
		return Local{}.Expand(ctx, path)
	}
	return objects{ctx}.expand(path)
}

// Local is the file system of this machine.
type Local struct{}

type localFile struct {
	*os.File
	size int64
}

func (f localFile) Size() int64 { return f.size }

// Open opens a regular file.
func (Local) Open(_ context.Context, name string) (File, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, cause(err)
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("not a regular file")
	}
	if err != nil {
		return nil, errors.Join(cause(err), f.Close())
	}
	return localFile{f, info.Size()}, nil
}

// Expand says which files path stands for. Patterns are those of [filepath.Match].
func (l Local) Expand(_ context.Context, path string) ([]string, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return l.folder(path)
	case err == nil:
		return []string{path}, nil
	case !errors.Is(err, fs.ErrNotExist) || !strings.ContainsAny(path, "*?["):
		return nil, cause(err)
	}
	matches, err := filepath.Glob(path)
	if err != nil {
		return nil, err
	}
	slices.Sort(matches)
	var files []string
	for _, m := range matches {
		info, err := os.Stat(m)
		if err != nil {
			return nil, cause(err)
		}
		if !info.IsDir() {
			files = append(files, m)
			continue
		}
		in, err := l.folder(m)
		if err != nil {
			return nil, err
		}
		files = append(files, in...)
	}
	if len(files) == 0 {
		return nil, errors.New("no file matches the pattern")
	}
	return files, nil
}

// folder lists the files under dir in the order of their paths.
func (Local) folder(dir string) ([]string, error) {
	var files []string
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != dir && strings.HasPrefix(d.Name(), ".") || path != dir && strings.HasPrefix(d.Name(), "_") {
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		}
		if d.IsDir() {
			return nil
		}
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		if info.IsDir() { // would be passed over
			return fmt.Errorf("%s is a symbolic link to a folder: name the folder itself", d.Name())
		}
		files = append(files, path)
		return nil
	})
	if err != nil {
		return nil, cause(err)
	}
	if len(files) == 0 {
		return nil, errors.New("no file in the folder")
	}
	return files, nil
}

// cause drops the path from a file system's error: a Fault names it already.
func cause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

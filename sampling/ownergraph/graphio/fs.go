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
	// in it and in its folders, and a pattern for what matches it. Names that begin with "." or "_" are left
	// out, unless the path itself, or the part of the pattern that matches them, begins so. No file at all is an error.
	Expand(ctx context.Context, path string) ([]string, error)
}

// File is an open input file. Reads at different places may run at the same time.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64
	// Stamp says which state of the file this is: it differs after a change. It is asked for before and after reading.
	Stamp() (string, error)
}

// Files are the files of this machine and of object stores, by their names: see package store.
type Files struct{}

// Open opens a regular file, or an object.
func (Files) Open(ctx context.Context, name string) (File, error) {
	f, err := store.Open(ctx, name)
	if err != nil {
		return nil, cause(err)
	}
	return storedFile{f}, nil
}

// storedFile is a file of package store.
type storedFile struct{ store.File }

// Stamp is the size and the time of the last change of a local file. Of an object it is the generation or the ETag; what
// is read of it is of that version, or an error.
func (f storedFile) Stamp() (string, error) {
	local, is := f.File.(interface{ Stat() (fs.FileInfo, error) })
	if !is {
		return f.Version(), nil
	}
	info, err := local.Stat()
	if err != nil {
		return "", cause(err)
	}
	return fmt.Sprintf("%d %d", info.Size(), info.ModTime().UnixNano()), nil
}

// Expand says which files path stands for. In an object store as on this machine, folders are what is between slashes.
func (Files) Expand(ctx context.Context, path string) ([]string, error) {
	if path == "-" {
		return nil, errors.New("standard input is read where the commands bound and form are given it; a file of this name is ./-")
	}
	if err := store.Check(path); err != nil {
		return nil, err
	}
	if store.IsLocal(path) {
		return local{}.expand(strings.TrimPrefix(path, "file://"))
	}
	return objects{ctx}.expand(path)
}

// hidden says whether a name is left out where it was not asked for.
func hidden(name string) bool { return strings.HasPrefix(name, ".") || strings.HasPrefix(name, "_") }

// meta says whether a part of a path is a pattern.
func meta(part string) bool { return strings.ContainsAny(part, `*?[`) }

// local expands names of this machine.
type local struct{}

// expand says which files path stands for. Patterns are those of [filepath.Match].
func (l local) expand(path string) ([]string, error) {
	info, err := os.Stat(path)
	switch {
	case err == nil && info.IsDir():
		return l.folder(path)
	case err == nil:
		return []string{path}, nil
	case !errors.Is(err, fs.ErrNotExist) || !meta(path):
		return nil, cause(err)
	}
	path = filepath.Clean(path)
	matches, err := filepath.Glob(path)
	if err != nil {
		return nil, err
	}
	slices.Sort(matches)
	var files []string
	for _, m := range matches {
		if hiddenMatch(path, m) {
			continue
		}
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

// hiddenMatch says whether one of the parts of a name is hidden, and was matched by a pattern that does not ask for such names.
func hiddenMatch(pattern, name string) bool {
	patterns, names := strings.Split(pattern, string(filepath.Separator)), strings.Split(name, string(filepath.Separator))
	for i := 1; i <= min(len(patterns), len(names)); i++ {
		if part := patterns[len(patterns)-i]; meta(part) && !hidden(part) && hidden(names[len(names)-i]) {
			return true
		}
	}
	return false
}

// folder lists the files under dir, which may be a symbolic link, in the order of their paths.
func (local) folder(dir string) ([]string, error) {
	var files []string
	dir = strings.TrimRight(dir, string(filepath.Separator)) + string(filepath.Separator) // a link is followed
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if path != dir && hidden(d.Name()) {
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

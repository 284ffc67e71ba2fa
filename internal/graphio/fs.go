package graphio

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"

	"minsep/internal/printable"
	"minsep/internal/store"
)

// FS is where input files are: [Files], unless a program has another.
type FS interface {
	// Open opens a file by a name from Expand.
	Open(ctx context.Context, name string) (File, error)
	// Expand returns the files that a path stands for, in order: a file stands for itself, a
	// folder for the files in it and in its folders, and a pattern for the files that match it.
	// Names that begin with "." or "_" are left out, unless the path itself, or the part of the
	// pattern that matches them, begins so. No file at all is an error.
	Expand(ctx context.Context, path string) ([]string, error)
}

// File is an open input file. Reads at different places may run at the same time.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64
	// Stamp identifies the state of the file: it differs after a change. It is compared before and
	// after reading.
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

// Stamp is the size and the time of the last change of a local file. Of an object it is the
// generation or the ETag; every read of it is of that version, or an error.
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

// Expand returns the files that path stands for. Slashes separate folders in an object store too.
func (Files) Expand(ctx context.Context, path string) ([]string, error) {
	if path == "-" {
		return nil, errors.New(
			"- is standard input, and a graph is read more than once: give the path of a file; for a file of the name -, write ./-",
		)
	}
	files, err := store.Expand(ctx, path)
	if pe, ok := errors.AsType[*fs.PathError](err); ok && pe.Path != path { // of a file in a folder, such as a link to nowhere
		return nil, fmt.Errorf("%s: %w", printable.Line(masked(pe.Path)), pe.Err)
	}
	return files, cause(err)
}

// cause drops the path from a file system's error: a Fault names it already.
func cause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}

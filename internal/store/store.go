// Package store reads and writes files by name, wherever they are: at a local path, or in an object
// store as gs://bucket/key or s3://bucket/key.
//
// A file appears whole or not at all. Locally it has a temporary name until it is synced and
// renamed; in an object store it appears when its upload is closed. An open file keeps its
// contents: reading an object that was replaced is [ErrChanged], never a mixture. Requests to
// object stores are repeated within [Limits], and reads resume where they stopped.
//
// The package knows no cloud's client library. Other packages [Register] their schemes, and a
// program imports those that it needs. Names with a scheme that is not registered are refused.
package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode"

	"minsep/internal/parallel"
	"minsep/internal/param"
)

// ErrChanged means that an object is no longer the version that was opened or was to be replaced.
var ErrChanged = errors.New("the object was replaced meanwhile")

// ErrNotRegular means that a local name is a folder, a pipe, a device or the like.
var ErrNotRegular = errors.New("is not a regular file")

// File is an open file. Concurrent reads are safe.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64
	// Version identifies the contents of an object; it is "" for a local file.
	Version() string
}

// Info describes a file or folder.
type Info struct {
	Size    int64  // of a file
	Dir     bool   // whether it is a folder; in an object store, a name with objects below it
	Version string // see [File]

	// Mode has the permissions of a local file or folder; 0 in an object store and on Windows.
	Mode fs.FileMode
}

// Entry is a name in a folder.
type Entry struct {
	Name string // without the folder's name
	Dir  bool
}

// Options say how a file is written.
type Options struct {
	Mode fs.FileMode // of a local file; an object's readers are up to its bucket's policy

	// Size is a lower bound on the number of bytes to be written; 0 if unknown. A store that cannot
	// hold so many refuses them with [ErrTooLarge] before the first one.
	Size int64

	// InPlace writes a local file under its own name from the start, so that a killed process leaves no
	// second copy under a temporary name, but maybe a cut file. It requires New: an existing file is an
	// error before the first byte is asked for. An object that exists is one after the last.
	InPlace bool

	// New makes an existing file an error that wraps fs.ErrExist. Of several concurrent writers one
	// succeeds.
	New bool
	// Replaces is the version that the existing object must have; else the error wraps
	// [ErrChanged]. It is not for local files: their writers use locks.
	Replaces string
}

// FS stores the files of a scheme. Names are complete, scheme included. Errors wrap fs.ErrNotExist,
// fs.ErrExist and fs.ErrPermission where they apply. A folder of an object store exists as long as
// there are objects in it.
type FS interface {
	Open(ctx context.Context, name string) (File, error)
	// Write makes a file of the bytes that write produces, once write has returned nil. It replaces
	// an existing file. The folder must exist.
	Write(ctx context.Context, name string, o Options, write func(io.Writer) error) error
	Stat(ctx context.Context, name string) (Info, error)
	// List returns the names in a folder, in order. A missing folder is an error.
	List(ctx context.Context, dir string) ([]Entry, error)
	// MkdirAll makes a local folder, with mode, and its missing parents, with mode 0755.
	MkdirAll(ctx context.Context, dir string, mode fs.FileMode) error
	Remove(ctx context.Context, name string) error
	// RemoveAll removes a file, or a folder with everything in it. A missing one is not an error.
	RemoveAll(ctx context.Context, name string) error
	// Move renames a file within its store. In an object store the new object is complete before
	// the old one is removed.
	Move(ctx context.Context, from, to string) error
}

// registry has the registered schemes: made returns the store of a scheme, which it opens once.
var registry = struct {
	sync.Mutex
	made map[string]func() (FS, error)
}{made: map[string]func() (FS, error){}}

// Register makes a scheme known. open returns its store; it is called once, when a name of the
// scheme is first used.
func Register(scheme string, open func() (FS, error)) {
	registry.Lock()
	defer registry.Unlock()
	registry.made[scheme] = sync.OnceValues(open)
}

// Schemes are the registered schemes, sorted.
func Schemes() []string {
	registry.Lock()
	defer registry.Unlock()
	return slices.Sorted(maps.Keys(registry.made))
}

// of returns the store of a name.
func of(name string) (FS, error) {
	if strings.ContainsFunc(name, unicode.IsControl) { // they would act on the terminal where the name is printed
		return nil, param.Fault("name", strconv.Quote(name), "must have no control characters, such as ends of lines")
	}
	if isLocal(name) {
		return local{}, nil
	}
	registry.Lock()
	open := registry.made[scheme(name)]
	known := slices.Sorted(maps.Keys(registry.made))
	registry.Unlock()
	if open == nil {
		rule := "must be a local path"
		for _, k := range known {
			rule += ", or " + k + "://bucket/key"
		}
		return nil, &param.Error{Param: "name", Value: name, Rule: rule}
	}
	s, err := open()
	if err != nil {
		return nil, fmt.Errorf("%s://: %w", scheme(name), err)
	}
	return s, nil
}

// Open opens a file for reading. When ctx ends, reads fail too.
func Open(ctx context.Context, name string) (File, error) {
	s, err := of(name)
	if err != nil {
		return nil, err
	}
	return s.Open(ctx, name)
}

// Reader returns a reader of an open file from its beginning.
func Reader(f File) io.Reader { return io.NewSectionReader(f, 0, f.Size()) }

// ReadFile returns the contents of a file of at most limit bytes.
func ReadFile(ctx context.Context, name string, limit int64) ([]byte, error) {
	b, _, err := ReadVersion(ctx, name, limit)
	return b, err
}

// ReadVersion is [ReadFile], and also returns the version of the contents.
func ReadVersion(ctx context.Context, name string, limit int64) (b []byte, version string, err error) {
	err = whole(ctx, name, limit, func(f File) error {
		b, version = make([]byte, f.Size()), f.Version()
		if n, err := f.ReadAt(b, 0); n < len(b) {
			return err
		}
		return nil
	})
	if err != nil {
		return nil, "", err
	}
	return b, version, nil
}

// whole opens a file of at most limit bytes and calls read, which must read all of it. An object
// that is replaced meanwhile is opened again, at most twice.
func whole(ctx context.Context, name string, limit int64, read func(File) error) error {
	const times = 3
	once := func() error {
		f, err := Open(unwatched(ctx), name)
		if err != nil {
			return err
		}
		defer f.Close()
		if f.Size() > limit {
			return fault("read", name, &TooLongError{f.Size(), limit})
		}
		return fault("read", name, read(f))
	}
	err := once()
	for n := 1; n < times && errors.Is(err, ErrChanged); n++ {
		err = once()
	}
	if Failed(err) {
		note(ctx, err)
	}
	return err
}

// TooLongError means that a file is longer than the reader accepts.
type TooLongError struct{ Size, Limit int64 }

// Error has the size and the limit.
func (e *TooLongError) Error() string {
	return fmt.Sprintf("has %d bytes, more than %d", e.Size, e.Limit)
}

// ModeError means that others than its owner may read or write a local file that must be secret.
type ModeError struct {
	Mode fs.FileMode
	Size int64
}

// Error has the mode.
func (e *ModeError) Error() string { return fmt.Sprintf("mode %#o lets others use it", e.Mode) }

// ReadSecret returns the contents of a file of at most limit bytes. It refuses a local file that
// others than its owner may use with a [ModeError]. The readers of an object are up to its bucket's
// policy.
func ReadSecret(ctx context.Context, name string, limit int64) (b []byte, err error) {
	err = whole(ctx, name, limit, func(f File) (err error) {
		if local, is := f.(localFile); is && local.mode.Perm()&0o077 != 0 {
			return fault("open", name, &ModeError{local.mode.Perm(), f.Size()})
		}
		b, err = io.ReadAll(Reader(f))
		return err
	})
	return b, err
}

// ErrNotText means that a file that should be text, such as JSON, has a zero byte.
var ErrNotText = errors.New("is not text")

// ReadText returns the contents of a text file of at most limit bytes. It stops at the first zero
// byte, so that a large hollow file takes neither memory nor time.
func ReadText(ctx context.Context, name string, limit int64) (b []byte, err error) {
	err = whole(ctx, name, limit, func(f File) (err error) {
		b, err = io.ReadAll(Text(f))
		if err == nil && int64(len(b)) != f.Size() {
			err = io.ErrUnexpectedEOF
		}
		return err
	})
	return b, err
}

// Text returns a reader of an open text file from its beginning. A zero byte ends it with
// [ErrNotText].
func Text(f File) io.Reader { return textReader{Reader(f)} }

// textReader ends at the first zero byte.
type textReader struct{ io.Reader }

// Read implements [io.Reader].
func (t textReader) Read(b []byte) (int, error) {
	n, err := t.Reader.Read(b)
	if zero := bytes.IndexByte(b[:n], 0); zero >= 0 {
		return zero, ErrNotText
	}
	return n, err
}

// Write makes a file of the bytes that write produces: see [FS].
func Write(ctx context.Context, name string, o Options, write func(io.Writer) error) error {
	s, err := of(name)
	if err != nil {
		return err
	}
	return s.Write(ctx, name, o, write)
}

// WriteFile makes a file with the given contents.
func WriteFile(ctx context.Context, name string, o Options, data []byte) error {
	o.Size = int64(len(data))
	return Write(ctx, name, o, func(w io.Writer) error { _, err := io.Copy(w, bytes.NewReader(data)); return err })
}

// CopyTo writes the contents of a file to w.
func CopyTo(ctx context.Context, w io.Writer, name string) error {
	f, err := Open(ctx, name)
	if err != nil {
		return err
	}
	_, err = io.Copy(w, Reader(f))
	return errors.Join(err, f.Close())
}

// Stat describes a name.
func Stat(ctx context.Context, name string) (Info, error) {
	s, err := of(name)
	if err != nil {
		return Info{}, err
	}
	return s.Stat(ctx, name)
}

// CheckFolder returns an error if a folder is missing in which a file is to be made. Object stores
// need no folders.
func CheckFolder(ctx context.Context, dir string) error {
	if !isLocal(dir) {
		return nil
	}
	_, err := Stat(ctx, dir)
	return err
}

// Chmod sets the mode of a local folder. In an object store it does nothing.
func Chmod(dir string, mode fs.FileMode) error {
	if !isLocal(dir) {
		return nil
	}
	changing("chmod", dir)
	return os.Chmod(localPath(dir), mode)
}

// List returns the names in a folder, in order.
func List(ctx context.Context, dir string) ([]Entry, error) {
	s, err := of(dir)
	if err != nil {
		return nil, err
	}
	return s.List(ctx, dir)
}

// ListMade returns the names in a folder that [MkdirAll] made, in order. In an object store, where
// an empty folder does not exist, it returns none for a missing one.
func ListMade(ctx context.Context, dir string) ([]Entry, error) {
	list, err := List(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) && !isLocal(dir) {
		return nil, nil
	}
	return list, err
}

// MkdirAll makes a folder, if its store has folders.
func MkdirAll(ctx context.Context, dir string, mode fs.FileMode) error {
	s, err := of(dir)
	if err != nil {
		return err
	}
	return s.MkdirAll(ctx, dir, mode)
}

// Remove removes a file, or an empty local folder.
func Remove(ctx context.Context, name string) error {
	s, err := of(name)
	if err != nil {
		return err
	}
	return s.Remove(ctx, name)
}

// RemoveAll removes a file or a folder with all that is in it.
func RemoveAll(ctx context.Context, name string) error {
	s, err := of(name)
	if err != nil {
		return err
	}
	return s.RemoveAll(ctx, name)
}

// Move renames a file within its store. Moving to another store is an error.
func Move(ctx context.Context, from, to string) error {
	s, err := of(from)
	if err != nil {
		return err
	}
	if scheme(from) != scheme(to) {
		return fault("move", from, fmt.Errorf("to another store"))
	}
	return s.Move(ctx, from, to)
}

// Parallel calls f for 0 to n-1, up to sixteen calls at once, and joins the errors in that order.
// After an error it starts no further calls.
func Parallel(n int, f func(i int) error) error {
	return errors.Join(parallel.Each(n, 16, f)...)
}

// fault adds operation and name to an error that has neither.
func fault(op, name string, err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok || err == nil {
		return err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

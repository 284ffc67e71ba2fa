// Package store reads and writes files by their names, wherever they are: a local path, or an
// object of a store such as gs://bucket/key or s3://bucket/key.
//
// A file appears whole or not at all: locally under a temporary name that is synced and renamed, in
// an object store when its upload is closed. A file that is open keeps its contents: an object that
// is replaced meanwhile is [ErrChanged], never a mixture. Requests to object stores are repeated
// within [Limits], reads from the byte they reached.
//
// The package knows no cloud's client. The packages that do [Register] their schemes; a program
// imports those that it needs. Names of a scheme that is not registered are refused.
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
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode"

	"minsep/internal/param"
)

// ErrChanged says that an object is no longer the one that was opened, or that was to be replaced.
var ErrChanged = errors.New("the object was replaced meanwhile")

// ErrNotRegular says that a local name is a folder, a pipe, a device or the like, and not a file.
var ErrNotRegular = errors.New("is not a regular file")

// ErrHollow says that a local file has a size and next to no contents: it would take long to read,
// and nothing is in it.
var ErrHollow = errors.New("has a size and next to no contents")

// File is an open file. Reads at different places may run at the same time.
type File interface {
	io.ReaderAt
	io.Closer
	Size() int64
	// Version names the contents in an object store; it is "" for a local file.
	Version() string
}

// Info describes a file or folder.
type Info struct {
	Size     int64     // of a file
	Dir      bool      // a folder; in an object store, a name under which there are objects
	Version  string    // see [File]
	Modified time.Time // when a local file was last written; zero in an object store

	// Mode has the permissions of a local file or folder; 0 in an object store, and on Windows.
	Mode fs.FileMode
}

// Entry is a name in a folder.
type Entry struct {
	Name string // without the folder's
	Dir  bool
}

// Options say how a file is written.
type Options struct {
	Mode fs.FileMode // of a local file; the bucket's policy decides who may read an object

	// Temp is a part of the name that a local file has while it is not finished: [TempPrefix],
	// Temp and something random. It tells who may remove the file that a killed process has
	// left: [RemoveLeft]. Without it, the next writer of the same file removes that one.
	Temp string

	// Size is at least how many bytes are written, where that is known; 0 where not. A store that
	// cannot hold so many refuses them before the first one, with [ErrTooLarge].
	Size int64

	// Secret leaves no second copy, under a temporary name, if the process is killed: a local file
	// is written in place. With it goes New.
	Secret bool

	// New makes it an error that wraps fs.ErrExist if there is a file already. One of several
	// writers at once succeeds.
	New bool
	// Replaces is the version of the object that there must be, or the error wraps
	// [ErrChanged]. It is not for local files: their writers lock.
	Replaces string
}

// FS is where the files of a scheme are. Names are whole, with the scheme. Errors wrap
// fs.ErrNotExist, fs.ErrExist and fs.ErrPermission where they are of those kinds. A folder of an
// object store is there as long as there are objects in it.
type FS interface {
	Open(ctx context.Context, name string) (File, error)
	// Write makes the file of the output of write, once write has returned nil, and replaces one that
	// is there. The folder must exist.
	Write(ctx context.Context, name string, o Options, write func(io.Writer) error) error
	Stat(ctx context.Context, name string) (Info, error)
	// List returns the names in a folder, in order. A folder that does not exist is an error.
	List(ctx context.Context, dir string) ([]Entry, error)
	// MkdirAll makes a local folder and those above it, the last one with the mode, where they are
	// not there.
	MkdirAll(ctx context.Context, dir string, mode fs.FileMode) error
	Remove(ctx context.Context, name string) error
	// RemoveAll removes a file, or a folder with all that is in it. It is no error if there is
	// none.
	RemoveAll(ctx context.Context, name string) error
	// Move gives a file another name within its store. In an object store the new object is whole
	// before the old one goes.
	Move(ctx context.Context, from, to string) error
}

var registry = struct {
	sync.Mutex
	made map[string]func() (FS, error)
}{made: map[string]func() (FS, error){}}

// Register says how the store of a scheme is reached. open is called once, when the first name of
// the scheme is used.
func Register(scheme string, open func() (FS, error)) {
	registry.Lock()
	defer registry.Unlock()
	registry.made[scheme] = sync.OnceValues(open)
}

// of returns the store that a name belongs to.
func of(name string) (FS, error) {
	if strings.ContainsFunc(name, unicode.IsControl) { // which would act where the name is printed
		return nil, &param.Error{Package: "store", Param: "name", Value: strconv.Quote(name), Rule: "must have no control characters, such as ends of lines"}
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
		return nil, &param.Error{Package: "store", Param: "name", Value: name, Rule: rule}
	}
	s, err := open()
	if err != nil {
		return nil, fmt.Errorf("store: %s://: %w", scheme(name), err)
	}
	return s, nil
}

// Open opens a file to be read. The context also ends the reads.
func Open(ctx context.Context, name string) (File, error) {
	s, err := of(name)
	if err != nil {
		return nil, err
	}
	return s.Open(ctx, name)
}

// Reader reads an open file from its beginning.
func Reader(f File) io.Reader { return io.NewSectionReader(f, 0, f.Size()) }

// ReadFile returns the contents of a file of at most limit bytes.
func ReadFile(ctx context.Context, name string, limit int64) ([]byte, error) {
	b, _, err := ReadVersion(ctx, name, limit)
	return b, err
}

// ReadVersion returns the contents of a file of at most limit bytes, and their version.
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

// whole opens a file of at most limit bytes and has it read from its beginning to its end. An
// object that is replaced meanwhile is opened again, a few times.
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

// TooLongError says that a file has more bytes than are read.
type TooLongError struct{ Size, Limit int64 }

func (e *TooLongError) Error() string {
	return fmt.Sprintf("has %d bytes, more than %d", e.Size, e.Limit)
}

// ModeError says that a local file of so many bytes may be used by others than its owner.
type ModeError struct {
	Mode fs.FileMode
	Size int64
}

func (e *ModeError) Error() string { return fmt.Sprintf("mode %#o lets others use it", e.Mode) }

// ReadSecret returns the contents of a file of at most limit bytes. A local one that others than
// its owner may read or write is a [ModeError]. Who can read an object is for its bucket's policy
// to say.
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

// ErrNotText says that a file is not text, such as JSON: it has a byte of zero.
var ErrNotText = errors.New("is not text")

// ReadText returns the contents of a file of text of at most limit bytes. It stops at the first
// byte of zero, so that a file that has a size and no contents takes neither memory nor time.
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

// Text reads an open file of text from its beginning. A byte of zero ends it with [ErrNotText].
func Text(f File) io.Reader { return textReader{Reader(f)} }

type textReader struct{ io.Reader }

func (t textReader) Read(b []byte) (int, error) {
	n, err := t.Reader.Read(b)
	if zero := bytes.IndexByte(b[:n], 0); zero >= 0 {
		return zero, ErrNotText
	}
	return n, err
}

// Write makes a file of the output of write. See [FS].
func Write(ctx context.Context, name string, o Options, write func(io.Writer) error) error {
	s, err := of(name)
	if err != nil {
		return err
	}
	return s.Write(ctx, name, o, write)
}

// WriteFile makes a file of data.
func WriteFile(ctx context.Context, name string, o Options, data []byte) error {
	o.Size = int64(len(data))
	return Write(ctx, name, o, func(w io.Writer) error { _, err := io.Copy(w, bytes.NewReader(data)); return err })
}

// Stat describes a name.
func Stat(ctx context.Context, name string) (Info, error) {
	s, err := of(name)
	if err != nil {
		return Info{}, err
	}
	return s.Stat(ctx, name)
}

// CheckFolder reports a folder that is not there, where a file needs one: objects do not.
func CheckFolder(ctx context.Context, dir string) error {
	if !isLocal(dir) {
		return nil
	}
	_, err := Stat(ctx, dir)
	return err
}

// NearestFolder returns the folder that is there: dir, or the nearest one above it. It is "" in an
// object store, where a folder is there with the first object in it.
func NearestFolder(dir string) (string, error) {
	if !isLocal(dir) {
		return "", nil
	}
	for dir = localPath(dir); ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		switch {
		case err == nil && !info.IsDir():
			return "", fmt.Errorf("%s is a file", dir)
		case err == nil || filepath.Dir(dir) == dir:
			return dir, nil
		}
	}
}

// Chmod gives a local folder a mode. The bucket's policy decides who may read an object.
func Chmod(dir string, mode fs.FileMode) error {
	if !isLocal(dir) {
		return nil
	}
	return changeMode(localPath(dir), mode)
}

// List returns the names in a folder, in order.
func List(ctx context.Context, dir string) ([]Entry, error) {
	s, err := of(dir)
	if err != nil {
		return nil, err
	}
	return s.List(ctx, dir)
}

// ListMade returns the names in a folder that [MkdirAll] has made, in order. In an object store,
// which has no empty folders, there are none if nothing is in it.
func ListMade(ctx context.Context, dir string) ([]Entry, error) {
	list, err := List(ctx, dir)
	if errors.Is(err, fs.ErrNotExist) && !isLocal(dir) {
		return nil, nil
	}
	return list, err
}

// MkdirAll makes a folder where folders are made.
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

// Move gives a file another name in the same store.
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

// Parallel calls f for 0 to n-1, up to sixteen at once, and joins the errors in this order. After
// an error no more calls are started.
func Parallel(n int, f func(i int) error) error {
	errs := make([]error, n)
	var next, failed atomic.Int64
	var workers sync.WaitGroup
	for range min(n, 16) {
		workers.Go(func() {
			for failed.Load() == 0 {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				if errs[i] = f(i); errs[i] != nil {
					failed.Store(1)
				}
			}
		})
	}
	workers.Wait()
	return errors.Join(errs...)
}

// fault puts operation and name to an error that does not have them.
func fault(op, name string, err error) error {
	if _, ok := errors.AsType[*fs.PathError](err); ok || err == nil {
		return err
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

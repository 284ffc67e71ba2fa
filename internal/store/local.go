package store

import (
	"bufio"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
)

// TempPrefix begins the name of every unfinished local file. A killed process leaves such files
// behind, and readers ignore them.
const TempPrefix = ".minsep-tmp-"

// local is the file system of this machine.
type local struct{}

// localFile is an open regular file. Reads fail once ctx ends.
type localFile struct {
	*os.File
	ctx  context.Context
	size int64
	mode fs.FileMode
}

// ReadAt implements [io.ReaderAt].
func (f localFile) ReadAt(b []byte, at int64) (int, error) {
	if err := f.ctx.Err(); err != nil {
		return 0, err
	}
	return f.File.ReadAt(b, at)
}

func (f localFile) Size() int64     { return f.size }
func (f localFile) Version() string { return "" }

// Open opens a regular file or a link to one. It never blocks, as opening a pipe would.
func (local) Open(ctx context.Context, name string) (File, error) {
	f, err := os.OpenFile(localPath(name), os.O_RDONLY|nonBlocking, 0)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	switch {
	case err != nil:
	case !info.Mode().IsRegular():
		err = fault("open", name, ErrNotRegular)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return localFile{f, ctx, info.Size(), info.Mode()}, nil
}

// Write writes to a temporary name in the same folder, syncs the file, and renames it.
func (local) Write(_ context.Context, name string, o Options, write func(io.Writer) error) error {
	path := localPath(name)
	if o.InPlace {
		return writeInPlace(path, o.Mode, write)
	}
	temp, f, err := createTemp(filepath.Dir(path), filepath.Base(path), o.Mode)
	if err != nil {
		return err
	}
	err = fill(f, o.Size, write)
	if canLock {
		defer f.Close() // releases the lock, after the temporary name is gone
	} else {
		err = errors.Join(err, f.Close())
	}
	if err == nil {
		err = place(temp, path, o.New)
	}
	if err != nil {
		remove(temp)
		return err
	}
	return syncDir(filepath.Dir(path))
}

// place renames a finished file to path. With onlyNew it fails if path exists.
func place(temp, path string, onlyNew bool) error {
	if !onlyNew {
		return rename(temp, path)
	}
	if done, err := renameNew(temp, path); done {
		return err
	}
	changing("link", path)
	if err := os.Link(temp, path); err != nil { // which fails if the name exists
		return err
	}
	return remove(temp)
}

// writeInPlace makes a new file under its own name from the start, so that a kill leaves no copy
// under another name. If writing fails, it removes the file.
func writeInPlace(path string, mode fs.FileMode, write func(io.Writer) error) error {
	f, err := openToWrite(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	if err = errors.Join(fill(f, 0, write), f.Close()); err != nil {
		remove(path)
		return err
	}
	return syncDir(filepath.Dir(path))
}

// fill writes and syncs a file of at least size bytes. A large one goes past the system's cache, which
// would copy every byte once more to hold what nobody reads soon.
func fill(f *os.File, size int64, write func(io.Writer) error) error {
	buffer := 1 << 18
	if size >= 1<<20 {
		buffer *= 4
		setDirect(f, true)
	}
	w := bufio.NewWriterSize(directFile{f, f}, buffer) // which begins at a page, as direct writes must
	err := write(w)
	if err == nil {
		err = w.Flush()
	}
	if err == nil {
		err = syncFile(f)
	}
	return err
}

// directFile writes through the system's cache from the first direct write on that the file system
// refuses, as it does one that is not of whole pages.
type directFile struct {
	io.Writer // the file
	file      *os.File
}

func (d directFile) Write(b []byte) (int, error) {
	n, err := d.Writer.Write(b)
	if !errors.Is(err, syscall.EINVAL) {
		return n, err
	}
	setDirect(d.file, false)
	rest, err := d.Writer.Write(b[n:])
	return n + rest, err
}

// syncDir makes the names in a folder durable.
func syncDir(dir string) error {
	if beforeSyncDir != nil {
		beforeSyncDir(dir)
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return fault("sync", dir, errors.Join(d.Sync(), d.Close()))
}

// Stat follows links.
func (local) Stat(_ context.Context, name string) (Info, error) {
	info, err := os.Stat(localPath(name))
	if err != nil {
		return Info{}, err
	}
	of := Info{Size: info.Size(), Dir: info.IsDir()}
	if runtime.GOOS != "windows" {
		of.Mode = info.Mode().Perm()
	}
	return of, nil
}

// List returns names in the order of their bytes, as [os.ReadDir] does.
func (local) List(_ context.Context, dir string) ([]Entry, error) {
	entries, err := os.ReadDir(localPath(dir))
	if err != nil {
		return nil, err
	}
	list := make([]Entry, len(entries))
	for i, e := range entries {
		list[i] = Entry{e.Name(), e.IsDir()}
	}
	return list, nil
}

// MkdirAll makes missing parents with mode 0755: only the last folder may have to be secret.
func (local) MkdirAll(_ context.Context, dir string, mode fs.FileMode) error {
	_, err := makeFolder(localPath(dir), 0o755, mode)
	return err
}

// makeFolder makes a folder with mode, and its missing parents with parentMode. made says that the
// folder was not there.
func makeFolder(dir string, parentMode, mode fs.FileMode) (made bool, err error) {
	var parents []string // of folders that are made
	for at := dir; at != filepath.Dir(at); at = filepath.Dir(at) {
		if _, err := os.Stat(at); err == nil {
			break
		}
		parents = append(parents, filepath.Dir(at))
	}
	if len(parents) > 1 {
		changing("mkdir", filepath.Dir(dir))
	}
	if err := os.MkdirAll(filepath.Dir(dir), parentMode); err != nil {
		return false, err
	}
	changing("mkdir", dir)
	if err = os.Mkdir(dir, mode); err != nil && !errors.Is(err, fs.ErrExist) {
		return false, err
	}
	made = err == nil
	for _, parent := range parents { // a folder whose name is lost would take its files with it
		if err := syncDir(parent); err != nil && !errors.Is(err, fs.ErrPermission) {
			return made, err
		}
	}
	info, err := os.Stat(dir)
	if err == nil && !info.IsDir() {
		err = fault("mkdir", dir, errors.New("is a file"))
	}
	return made, err
}

// Remove removes a file, and syncs its folder: the file does not return after a crash.
func (local) Remove(_ context.Context, name string) error {
	if err := remove(localPath(name)); err != nil {
		return err
	}
	return syncDir(filepath.Dir(localPath(name)))
}

// RemoveAll implements [FS].
func (local) RemoveAll(_ context.Context, name string) error {
	changing("remove", localPath(name))
	return os.RemoveAll(localPath(name))
}

func (local) Move(_ context.Context, from, to string) error {
	return rename(localPath(from), localPath(to))
}

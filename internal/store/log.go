package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Log is an open file to which one process at a time appends lines.
type Log interface {
	// Append returns once the lines are durable. The error wraps [ErrLocked] if another process has
	// appended meanwhile.
	Append(lines [][]byte) error
	io.Closer
}

// OpenLog opens a log, or makes it: with the given mode if it is local. replay reads the contents
// and returns the length of their whole part; the rest, a last line torn by a crash, is cut off. A
// local log is locked, and the error wraps [ErrLocked] if another process has it open. An object
// cannot be appended to, so the log is held in memory, at most limit bytes, and each Append
// replaces the version of the object that was read last.
func OpenLog(
	ctx context.Context,
	name string,
	mode fs.FileMode,
	limit int64,
	replay func(io.Reader) (whole int64, err error),
) (Log, error) {
	if !isLocal(name) {
		return openObjectLog(ctx, name, limit, replay)
	}
	changing("open", name)
	f, _, err := openLocal(name, os.O_RDWR|os.O_CREATE|noFollow, mode)
	if err != nil {
		return nil, notALink(name, err)
	}
	l := &localLog{file: f}
	if err := l.start(Dir(name), replay); err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

// localLog is a locked local file.
type localLog struct {
	file *os.File
	size int64
}

// start locks the file, replays it, and cuts a torn last line off.
func (l *localLog) start(dir string, replay func(io.Reader) (whole int64, err error)) error {
	if err := TryLock(l.file); err != nil {
		return err
	}
	whole, err := replay(l.file)
	if err != nil {
		return err
	}
	info, err := l.file.Stat()
	if err != nil {
		return err
	}
	l.size = whole
	if whole < info.Size() {
		changing("truncate", l.file.Name())
		if err := l.file.Truncate(l.size); err != nil {
			return err
		}
	}
	return errors.Join(syncFile(l.file), syncDir(dir))
}

// Append syncs after each line, so that a crash tears at most the last one.
func (l *localLog) Append(lines [][]byte) error {
	for _, line := range lines {
		changing("append", l.file.Name())
		if _, err := l.file.WriteAt(line, l.size); err != nil {
			return err
		}
		if err := syncFile(l.file); err != nil {
			return err
		}
		l.size += int64(len(line))
	}
	return nil
}

// Close releases the lock.
func (l *localLog) Close() error { return l.file.Close() }

// objectLog is an object that is rewritten by each Append.
type objectLog struct {
	ctx     context.Context
	name    string
	limit   int64
	data    []byte
	version string // "" while there is no object
}

// openObjectLog reads and replays the object, if there is one.
func openObjectLog(
	ctx context.Context,
	name string,
	limit int64,
	replay func(io.Reader) (whole int64, err error),
) (*objectLog, error) {
	l := &objectLog{ctx: ctx, name: name, limit: limit}
	data, version, err := ReadVersion(ctx, name, limit)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, err
	}
	whole, err := replay(bytes.NewReader(data))
	l.data, l.version = data[:whole], version
	return l, err
}

// Append replaces the object by one with the lines. Another writer makes the precondition fail.
func (l *objectLog) Append(lines [][]byte) error {
	for _, line := range lines {
		l.data = append(l.data, line...)
	}
	err := WriteFile(l.ctx, l.name, Options{New: l.version == "", Replaces: l.version}, l.data)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, ErrChanged) {
		return fmt.Errorf("%w (%w)", ErrLocked, err)
	}
	if err != nil {
		return err
	}
	data, version, err := ReadVersion(l.ctx, l.name, l.limit)
	if err != nil {
		return err
	}
	if l.version = version; string(data) != string(l.data) {
		return fault("write", l.name, ErrLocked)
	}
	return nil
}

// Close has nothing to release: an object log has no lock.
func (*objectLog) Close() error { return nil }

package ledger

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"minsep/internal/store"
)

// log is where the lines of finished units are.
type log interface {
	// append returns when the lines are safe.
	append(lines [][]byte) error
	close() error
}

// openLog opens the log in dir, or makes it. replay takes what is there and returns how much of it is whole: the rest is cut off.
func openLog(dir string, replay func(io.Reader) (whole int64, err error)) (log, error) {
	if !store.IsLocal(dir) {
		return openObjectLog(store.Join(dir, UnitsFile), replay)
	}
	f, _, err := store.OpenLocal(store.Join(dir, UnitsFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	l := &fileLog{file: f}
	if err := l.start(store.Join(dir), replay); err != nil {
		f.Close()
		return nil, err
	}
	return l, nil
}

// fileLog is a local file that is locked.
type fileLog struct {
	file *os.File
	size int64
}

func (l *fileLog) start(dir string, replay func(io.Reader) (whole int64, err error)) error {
	if err := lock(l.file); err != nil {
		return fmt.Errorf("%w (%w)", ErrLocked, err)
	}
	whole, err := replay(l.file)
	if err != nil {
		return err
	}
	info, err := l.file.Stat()
	if err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	l.size = whole
	if whole < info.Size() {
		if err := l.file.Truncate(l.size); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
	}
	if err := errors.Join(l.file.Sync(), syncDir(dir)); err != nil {
		return fmt.Errorf("ledger: %w", err)
	}
	return nil
}

// append syncs line by line, so that a crash tears the last one only.
func (l *fileLog) append(lines [][]byte) error {
	for _, line := range lines {
		if _, err := l.file.WriteAt(line, l.size); err != nil {
			return err
		}
		if err := l.file.Sync(); err != nil {
			return err
		}
		l.size += int64(len(line))
	}
	return nil
}

func (l *fileLog) close() error { return l.file.Close() }

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// objectLog is an object, which cannot be added to: it is written anew, in the place of the version that was read.
type objectLog struct {
	name    string
	data    []byte
	version string // "" before there is one
}

func openObjectLog(name string, replay func(io.Reader) (whole int64, err error)) (*objectLog, error) {
	l := &objectLog{name: name}
	data, version, err := store.ReadVersion(background, name, maxLog)
	if errors.Is(err, fs.ErrNotExist) {
		return l, nil
	}
	if err != nil {
		return nil, fmt.Errorf("ledger: %w", err)
	}
	whole, err := replay(bytes.NewReader(data))
	l.data, l.version = data[:whole], version
	return l, err
}

func (l *objectLog) append(lines [][]byte) error {
	for _, line := range lines {
		l.data = append(l.data, line...)
	}
	err := store.WriteFile(background, l.name, store.Options{New: l.version == "", Replaces: l.version}, l.data)
	if errors.Is(err, fs.ErrExist) || errors.Is(err, store.ErrChanged) {
		return fmt.Errorf("%w (%w)", ErrLocked, err)
	}
	if err != nil {
		return err
	}
	data, version, err := store.ReadVersion(background, l.name, maxLog)
	if err != nil {
		return err
	}
	if l.version = version; string(data) != string(l.data) {
		return ErrLocked
	}
	return nil
}

func (*objectLog) close() error { return nil }

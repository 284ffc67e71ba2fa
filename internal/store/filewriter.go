package store

import (
	"errors"
	"os"
	"syscall"
	"unsafe"
)

// fileWriter gathers what is written to a local file. A large file goes past the system's cache, which
// would copy every byte once more to hold what nobody reads soon.
type fileWriter struct {
	file   *os.File
	buffer []byte // begins at a page, as direct writes must
	filled int
	direct bool
}

const pageBytes = 1 << 12

// newFileWriter returns a writer for a file of at least size bytes.
func newFileWriter(f *os.File, size int64) *fileWriter {
	w := &fileWriter{file: f}
	room := 1 << 18
	if size >= 1<<20 && setDirect(f, true) {
		w.direct, room = true, 1<<20
	}
	w.buffer = make([]byte, room+pageBytes)
	w.buffer = w.buffer[-uintptr(unsafe.Pointer(&w.buffer[0]))%pageBytes:][:room]
	return w
}

// Write implements [io.Writer].
func (w *fileWriter) Write(b []byte) (total int, err error) {
	for len(b) > 0 && err == nil {
		n := copy(w.buffer[w.filled:], b)
		w.filled, total, b = w.filled+n, total+n, b[n:]
		if w.filled == len(w.buffer) {
			err = w.flush()
		}
	}
	return total, err
}

// flush writes the buffer. A file system may refuse a direct write, and refuses one of less than a page.
func (w *fileWriter) flush() error {
	rest := w.buffer[:w.filled]
	if w.direct && w.filled == len(w.buffer) {
		n, err := w.file.Write(rest)
		rest = rest[n:]
		if err != nil && !errors.Is(err, syscall.EINVAL) {
			return err
		}
	}
	w.filled = 0
	if len(rest) == 0 {
		return nil
	}
	if w.direct {
		w.direct = false
		setDirect(w.file, false)
	}
	_, err := w.file.Write(rest)
	return err
}

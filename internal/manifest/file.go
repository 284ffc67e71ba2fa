package manifest

import (
	"bufio"
	"context"
	"crypto/sha256"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"path/filepath"
	"strings"

	"minsep/internal/digest"
	"minsep/internal/store"
)

// Modes of files and folders. Batches and noise are secret, the rest is public.
const (
	SecretFile fs.FileMode = 0o600
	SecretDir  fs.FileMode = 0o700
	PublicFile fs.FileMode = 0o644
	PublicDir  fs.FileMode = 0o755
)

// background is the context of writes and removals, which end by the limits of package store. Reads
// use their caller's context.
var background = context.Background()

// Digest is a SHA-256 digest: 64 hexadecimal digits in JSON.
type Digest = digest.SHA256

// File is a finished file as an index lists it.
type File struct {
	Name   string `json:"name"`   // slash-separated, relative to the index
	Bytes  int64  `json:"bytes"`  // at least 0
	SHA256 Digest `json:"sha256"` // of its bytes
}

// WriteFile writes dir/name, whole or not at all. It replaces an existing file, so that a task that
// runs twice leaves one result. name may contain slashes, and its folders must exist. mode is for a
// local file.
func WriteFile(dir, name string, mode fs.FileMode, write func(io.Writer) error) (File, error) {
	return writeFile(dir, name, store.Options{Mode: mode}, write)
}

// WriteFileOf is [WriteFile] for a file of at least size bytes. A store that cannot hold so many
// refuses them before the first one.
func WriteFileOf(dir, name string, mode fs.FileMode, size int64, write func(io.Writer) error) (File, error) {
	return writeFile(dir, name, store.Options{Mode: mode, Size: size}, write)
}

func writeFile(dir, name string, o store.Options, write func(io.Writer) error) (File, error) {
	sum := &summingWriter{sum: sha256.New()}
	err := store.Write(background, store.Join(dir, name), o, func(out io.Writer) error {
		sum.out = out
		w := bufio.NewWriterSize(sum, summedBytes)
		if err := write(w); err != nil {
			return err
		}
		return w.Flush()
	})
	if err != nil {
		return File{}, fmt.Errorf("writing %s: %w", name, err)
	}
	return File{Name: name, Bytes: sum.written, SHA256: Digest(sum.sum.Sum(nil))}, nil
}

// summedBytes is the size of what a summingWriter hashes and writes at a time.
const summedBytes = 1 << 18

// summingWriter writes to out, and counts and hashes what it writes. It takes large writes in pieces
// that stay in the processor's cache from the hash to the copy.
type summingWriter struct {
	out     io.Writer
	sum     hash.Hash
	written int64
}

func (s *summingWriter) Write(b []byte) (total int, err error) {
	for len(b) > 0 && err == nil {
		piece := b[:min(len(b), summedBytes)]
		s.sum.Write(piece)
		var n int
		n, err = s.out.Write(piece)
		if n < len(piece) && err == nil {
			err = io.ErrShortWrite
		}
		total += n
		b = b[n:]
	}
	s.written += int64(total)
	return total, err
}

// Check compares the file's size and SHA-256 with the index. If an object differs, it is read again
// until two readings agree, since ranges of a large object have no checksum in transit.
func (f File) Check(ctx context.Context, dir string) error {
	if err := f.CheckSize(ctx, dir); err != nil {
		return err
	}
	var before Digest
	for range 8 {
		got, err := f.digest(ctx, dir)
		if err != nil {
			return err
		}
		if got == f.SHA256 {
			return nil
		}
		if got == before || !store.Shared(dir) {
			break
		}
		before = got
	}
	return &MismatchError{f.Name, "SHA-256"}
}

// digest returns the SHA-256 of the file's contents.
func (f File) digest(ctx context.Context, dir string) (Digest, error) {
	r, err := store.Open(ctx, store.Join(dir, f.Name))
	if err != nil {
		return Digest{}, err
	}
	defer r.Close()
	got, err := digest.Of(store.Reader(r))
	if err != nil {
		return Digest{}, fmt.Errorf("reading %s: %w", f.Name, err)
	}
	return got, nil
}

// CheckSize compares the file's size with the index. It does not read the file.
func (f File) CheckSize(ctx context.Context, dir string) error {
	if !localName(f.Name) {
		return fmt.Errorf("file name %q in the index leads out of its folder", f.Name)
	}
	info, err := store.Stat(ctx, store.Join(dir, f.Name))
	if err != nil {
		return err
	}
	if info.Size != f.Bytes {
		return &MismatchError{f.Name, "size"}
	}
	return nil
}

func localName(name string) bool {
	return filepath.IsLocal(filepath.FromSlash(name)) && !strings.Contains(name, "\\")
}

// MismatchError means that a file differs from its index. It does not contain sizes, because sizes
// of batches are secret.
type MismatchError struct {
	Name, What string // the file, and "size" or "SHA-256"
}

// Is reports that the error is [ErrInvalid].
func (e *MismatchError) Is(target error) bool { return target == ErrInvalid }

func (e *MismatchError) Error() string {
	return fmt.Sprintf("%s: its %s is not as the index says", e.Name, e.What)
}

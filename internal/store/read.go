package store

import (
	"context"
	"errors"
	"hash/crc32"
	"io"
	"io/fs"
	"sync"
)

const (
	blockSize = 2 << 20 // bytes of a request
	ahead     = 4       // requests in flight for a reader that goes from block to block
	maxBlocks = 16      // blocks kept of a file: the columns of a table are read side by side
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// errCorrupt means that the object's bytes as read do not match the store's checksum.
var errCorrupt = errors.New("the data read do not match the store's CRC-32C")

// errVersion means that the answer is of another version than the requested one, which the store
// still has.
var errVersion = errors.New("the answer is for another version of the object than the store has")

// read fills dst from offset at. After a fault it resumes where it stopped. A whole object is
// compared with its checksum.
func (o *Objects) read(ctx context.Context, bucket, key string, of Object, at int64, dst []byte) error {
	done := 0
	err := o.Limits.repeat(ctx, o.Service.Temporary, func(ctx context.Context, _ int) error {
		for done < len(dst) {
			n, err := o.Service.Read(ctx, bucket, key, of, at+int64(done), dst[done:])
			done += n
			if errors.Is(err, ErrCondition) {
				err = o.changed(ctx, bucket, key, of)
			}
			if err == nil && n == 0 {
				err = io.ErrUnexpectedEOF
			}
			if err != nil {
				return err
			}
		}
		if of.CRC32C != nil && int64(len(dst)) == of.Size && crc32.Checksum(dst, castagnoli) != *of.CRC32C {
			done = 0
			return errCorrupt
		}
		return nil
	})
	return err
}

// changed explains a read that met another version: either the object was replaced (ErrChanged), or
// only the answer was wrong (errVersion).
func (o *Objects) changed(ctx context.Context, bucket, key string, opened Object) error {
	now, err := o.Service.Stat(ctx, bucket, key)
	switch {
	case err == nil && now.Version == opened.Version:
		return errVersion
	case err == nil, errors.Is(err, fs.ErrNotExist):
		return ErrChanged
	}
	return err
}

// objectFile is an object that is read by blocks. It keeps the blocks used last, and has several
// requests in flight for a reader that goes from one block to the next.
type objectFile struct {
	ctx     context.Context
	cancel  context.CancelFunc
	object  Object
	fetch   func(ctx context.Context, at int64, dst []byte) error
	running sync.WaitGroup

	mutex  sync.Mutex
	blocks map[int64]*block
	clock  int64
}

// block is a block of an object. data and err are valid once done is closed.
type block struct {
	done chan struct{}
	data []byte
	err  error
	used int64
}

// newObjectFile returns a file that fetches its blocks when they are read. fetch fills dst from an
// offset.
func newObjectFile(ctx context.Context, of Object, fetch func(ctx context.Context, at int64, dst []byte) error) *objectFile {
	ctx, cancel := context.WithCancel(ctx)
	return &objectFile{ctx: ctx, cancel: cancel, object: of, fetch: fetch, blocks: map[int64]*block{}}
}

// Size and Version implement [File].
func (f *objectFile) Size() int64     { return f.object.Size }
func (f *objectFile) Version() string { return f.object.Version }

// Close cancels the requests in flight and waits for them.
func (f *objectFile) Close() error {
	f.cancel()
	f.running.Wait()
	return nil
}

// ReadAt implements [io.ReaderAt].
func (f *objectFile) ReadAt(b []byte, at int64) (n int, err error) {
	if at < 0 {
		return 0, errors.New("negative offset")
	}
	for n < len(b) {
		if at >= f.object.Size {
			return n, io.EOF
		}
		last := min(at+int64(len(b)-n), f.object.Size) - 1
		data, err := f.block(at/blockSize, last/blockSize)
		if err != nil {
			return n, err
		}
		m := copy(b[n:], data[at%blockSize:])
		n += m
		at += int64(m)
	}
	return n, nil
}

// block returns block i to a reader that needs the blocks up to last.
func (f *objectFile) block(i, last int64) ([]byte, error) {
	f.mutex.Lock()
	if f.blocks[i-1] != nil {
		last = max(last, i+ahead-1)
	}
	last = min(last, i+ahead-1, (f.object.Size-1)/blockSize)
	f.clock++
	for j := last; j >= i; j-- {
		f.want(j)
	}
	b := f.blocks[i]
	f.mutex.Unlock()
	select {
	case <-b.done:
	case <-f.ctx.Done():
		return nil, f.ctx.Err()
	}
	if b.err != nil {
		f.mutex.Lock()
		if f.blocks[i] == b { // forget the failure, so that a later read tries again
			delete(f.blocks, i)
		}
		f.mutex.Unlock()
	}
	return b.data, b.err
}

// want starts fetching block i unless it is there or on its way.
func (f *objectFile) want(i int64) {
	if b := f.blocks[i]; b != nil {
		b.used = f.clock
		return
	}
	b := &block{done: make(chan struct{}), used: f.clock}
	for len(f.blocks) >= maxBlocks && f.forget() {
	}
	f.blocks[i] = b
	f.running.Go(func() {
		defer close(b.done)
		data := make([]byte, min(blockSize, f.object.Size-i*blockSize))
		if b.err = f.fetch(f.ctx, i*blockSize, data); b.err == nil {
			b.data = data
		}
	})
}

// forget drops the block that was unused for longest. It returns false if all blocks are in use
// now.
func (f *objectFile) forget() bool {
	oldest := int64(-1)
	for i, b := range f.blocks {
		if b.used < f.clock && (oldest < 0 || b.used < f.blocks[oldest].used) {
			oldest = i
		}
	}
	if oldest >= 0 {
		delete(f.blocks, oldest)
	}
	return oldest >= 0
}

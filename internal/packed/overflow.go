package packed

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"
	"slices"

	"minsep/internal/store"
)

// DefaultOverflowAfter is the number of bytes that a packer passes on in a bundle before it
// writes to files. A runner may hold all of a bundle's output in memory, or, as Flink's runner
// does, stop forever at about 400 MB of it. A bundle has up to four packers.
const DefaultOverflowAfter = 64 << 20

// overflowFile is the number of bytes of chunks that are written as one file.
const overflowFile = 32 << 20

// Overflow says where a packer puts the chunks that are too much for one bundle. In their place
// it emits references to files, which [Records] and [Sorter] read. Every worker must be able to
// read and write the folder; who runs the pipeline makes it, and removes it when the pipeline
// has ended. A bundle that is made again writes new files.
type Overflow struct {
	Dir   string // empty: nowhere, all is passed on
	After int64  // bytes that are passed on before; 0 means DefaultOverflowAfter
}

// overflow is the state of an Overflow in a bundle.
type overflow struct {
	Overflow
	width  int
	passed int64
	held   []bucketChunk
	bytes  int
	err    error // the first one: then nothing is written any more
}

type bucketChunk struct {
	bucket uint32
	bytes  []byte
}

func (o *overflow) take(bucket uint32, chunk []byte, emit Emit) {
	if o.passed += int64(len(chunk)); o.passed <= o.After {
		emit(bucket, chunk)
		return
	}
	o.held = append(o.held, bucketChunk{bucket, chunk})
	if o.bytes += len(chunk); o.bytes >= overflowFile {
		o.write(emit)
	}
}

// write writes the chunks that are held as one file, the chunks of a bucket together, and emits
// a reference for each bucket.
func (o *overflow) write(emit Emit) {
	held := o.held
	o.held, o.bytes = o.held[:0], 0
	defer clear(held) // the chunks, which may be large
	if len(held) == 0 || o.err != nil {
		return
	}
	slices.SortStableFunc(held, func(a, b bucketChunk) int { return cmp.Compare(a.bucket, b.bucket) })
	name := store.Join(o.Dir, rand.Text())
	o.err = fault("writing chunks that are too much for a bundle", store.Write(context.Background(), name, store.Options{Mode: 0o600}, func(w io.Writer) error {
		for _, c := range held {
			if _, err := w.Write(c.bytes); err != nil {
				return err
			}
		}
		return nil
	}))
	if o.err != nil {
		return
	}
	at := int64(0)
	for start := 0; start < len(held); {
		r := reference{name: name, at: at}
		end := start
		for ; end < len(held) && held[end].bucket == held[start].bucket; end++ {
			r.size += int64(len(held[end].bytes))
		}
		emit(held[start].bucket, r.encode(o.width))
		at, start = at+r.size, end
	}
}

// reference stands for a chunk that is a part of a file. Its encoding is no chunk of its width: one
// of fixed width is a multiple of the width, which a reference is not, and the mark that begins it
// is no length of a record.
type reference struct {
	name     string
	at, size int64
}

var mark = bytes.Repeat([]byte{0xff}, binary.MaxVarintLen64)

func (r reference) encode(width int) []byte {
	b := bytes.Clone(mark)
	b = binary.BigEndian.AppendUint64(b, uint64(r.at))
	b = binary.BigEndian.AppendUint64(b, uint64(r.size))
	b = binary.AppendUvarint(b, uint64(len(r.name)))
	b = append(b, r.name...)
	for width > 1 && len(b)%width != 1 {
		b = append(b, 0)
	}
	return b
}

// resolve returns the chunk that a reference stands for, or chunk itself.
func resolve(chunk []byte, width int) ([]byte, error) {
	rest, is := bytes.CutPrefix(chunk, mark)
	if !is || width == 1 || width > 1 && len(chunk)%width == 0 {
		return chunk, nil
	}
	if len(rest) < 16 {
		return nil, fmt.Errorf("packed: reference of %d bytes: cut short", len(chunk))
	}
	at, size := int64(binary.BigEndian.Uint64(rest)), int64(binary.BigEndian.Uint64(rest[8:]))
	n, k := binary.Uvarint(rest[16:])
	if rest = rest[16+max(k, 0):]; k <= 0 || n > uint64(len(rest)) {
		return nil, fmt.Errorf("packed: reference of %d bytes: cut short", len(chunk))
	}
	file, err := store.Open(context.Background(), string(rest[:n]))
	if err != nil {
		return nil, fault("reading chunks that were too much for a bundle", err)
	}
	defer file.Close()
	if at < 0 || size < 0 || at > file.Size()-size {
		return nil, fmt.Errorf("packed: reference to %d bytes from %d on in a file of %d", size, at, file.Size())
	}
	whole := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(file, at, size), whole); err != nil {
		return nil, fault("reading chunks that were too much for a bundle", err)
	}
	return whole, nil
}

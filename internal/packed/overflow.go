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

// DefaultOverflowAfter is the number of bytes that a packer emits in a bundle before it writes to
// files. A runner may hold all output of a bundle in memory; Flink's runner deadlocks at about 400
// MB of it. A bundle has up to four packers.
const DefaultOverflowAfter = 64 << 20

// overflowFile is the number of bytes of chunks that one overflow file holds.
const overflowFile = 32 << 20

// Overflow says where a packer puts the chunks that are too much for one bundle. Instead of such a
// chunk it emits a reference to a file, which [Resolve], [Records] and [Sorter] read. Every worker must be
// able to read and write the folder. The caller of the pipeline makes it and removes it afterwards.
// A bundle that is retried writes new files.
type Overflow struct {
	Dir   string // "" means that all chunks are emitted
	After int64  // bytes emitted before files are used; 0 means DefaultOverflowAfter
}

// overflow is the state of an Overflow within a bundle.
type overflow struct {
	Overflow
	passed int64
	held   []bucketChunk
	bytes  int
	err    error // the first error; nothing is written after it
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

// write writes the held chunks to one file, the chunks of each bucket side by side, and emits a
// reference for each bucket.
func (o *overflow) write(emit Emit) {
	held := o.held
	o.held, o.bytes = o.held[:0], 0
	defer clear(held) // the chunks, which may be large
	if len(held) == 0 || o.err != nil {
		return
	}
	slices.SortStableFunc(held, func(a, b bucketChunk) int { return cmp.Compare(a.bucket, b.bucket) })
	name := store.Join(o.Dir, rand.Text())
	o.err = fault(
		"writing chunks that are too much for a bundle",
		store.Write(context.Background(), name, store.Options{Mode: 0o600}, func(w io.Writer) error {
			for _, c := range held {
				if _, err := w.Write(c.bytes); err != nil {
					return err
				}
			}
			return nil
		}),
	)
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
		emit(held[start].bucket, r.encode())
		at, start = at+r.size, end
	}
}

// reference stands for a chunk that is a part of a file. Its encoding cannot be mistaken for a
// chunk: no chunk begins with the mark, since it is not a valid length.
type reference struct {
	name     string
	at, size int64
}

var mark = bytes.Repeat([]byte{0xff}, binary.MaxVarintLen64)

func (r reference) encode() []byte {
	b := bytes.Clone(mark)
	b = binary.BigEndian.AppendUint64(b, uint64(r.at))
	b = binary.BigEndian.AppendUint64(b, uint64(r.size))
	b = binary.AppendUvarint(b, uint64(len(r.name)))
	return append(b, r.name...)
}

// Resolve returns the chunks that a reference stands for, one after the other. It returns any other
// chunk unchanged.
func Resolve(chunk []byte) ([]byte, error) {
	rest, is := bytes.CutPrefix(chunk, mark)
	if !is {
		return chunk, nil
	}
	if len(rest) < 16 {
		return nil, fmt.Errorf("reference of %d bytes: cut short", len(chunk))
	}
	at, size := int64(binary.BigEndian.Uint64(rest)), int64(binary.BigEndian.Uint64(rest[8:]))
	n, k := binary.Uvarint(rest[16:])
	if rest = rest[16+max(k, 0):]; k <= 0 || n > uint64(len(rest)) {
		return nil, fmt.Errorf("reference of %d bytes: cut short", len(chunk))
	}
	file, err := store.Open(context.Background(), string(rest[:n]))
	if err != nil {
		return nil, fault("reading chunks that were too much for a bundle", err)
	}
	defer file.Close()
	if at < 0 || size < 0 || at > file.Size()-size {
		return nil, fmt.Errorf("reference to %d bytes from %d on in a file of %d", size, at, file.Size())
	}
	whole := make([]byte, size)
	if _, err := io.ReadFull(io.NewSectionReader(file, at, size), whole); err != nil {
		return nil, fault("reading chunks that were too much for a bundle", err)
	}
	return whole, nil
}

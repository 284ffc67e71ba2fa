// Package packed moves small records through a shuffle in chunks.
//
// A GroupByKey pays for each element it moves; a graph has 1e8 edges. So records of a few bytes
// are gathered by hash bucket into chunks of about [ChunkSize] bytes, a Beam GroupByKey sees
// the pair (bucket, chunk) as a KV<uint32, []byte>, with Beam's own coders, and the DoFn after
// it sorts the bucket:
//
//	Packer.Add(bucket, record, emit) → beam.GroupByKey → Sorter.AddAll(chunks), Sorter.Each(func(record))
//
// A record is a byte string, ordered by its bytes: write numbers big endian. All records of one
// collection have one width, or, with width 0, any length. The number of buckets comes from the
// size of the data ([Buckets]); a bucket that is larger all the same, for one hot owner, is sorted
// through temporary files, not in memory.
package packed

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"
)

const (
	// ChunkSize is the number of bytes at which a chunk is emitted. A longer record makes a longer
	// chunk.
	ChunkSize = 64 << 10
	// BucketSize is the number of bytes that a bucket is meant to stay under.
	BucketSize = 64 << 20
	// PackerSize is the number of bytes that a Packer holds before it emits all, full or not: with
	// very many buckets, most chunks are small.
	PackerSize = 128 << 20
	// MaxBuckets bounds the number of buckets, so that one fits in three bytes.
	MaxBuckets = 1 << 24
)

// Buckets returns the number of buckets, at least 1, for a shuffle of total bytes.
func Buckets(total int64) int {
	return int(min(max(1, (total+BucketSize-1)/BucketSize), MaxBuckets))
}

// Bucket maps a uniform word to one of n buckets by its leading bits: buckets are ranges of words,
// in their order.
func Bucket(word uint64, n int) uint32 {
	hi, _ := bits.Mul64(word, uint64(n))
	return uint32(hi)
}

// Emit takes a full chunk. The chunk is not touched again.
type Emit = func(bucket uint32, chunk []byte)

// Packer gathers records into chunks by bucket, in memory of about [PackerSize]. Make one in
// StartBundle, Add in ProcessElement, Flush in FinishBundle. It is not safe for concurrent use.
type Packer struct {
	width  int
	chunks [][]byte
	held   int   // bytes allocated for chunks
	packed int64 // bytes of the chunks emitted
	over   *overflow
}

// NewPacker returns a packer for records of width bytes, or of any length if width is 0.
func NewPacker(width, buckets int) *Packer {
	return &Packer{width: width, chunks: make([][]byte, buckets)}
}

// Over makes the packer put into o the chunks that are too much for one bundle.
func (p *Packer) Over(o Overflow) *Packer {
	if o.After == 0 {
		o.After = DefaultOverflowAfter
	}
	if o.Dir != "" && p.width != 1 { // nobody has records of one byte
		p.over = &overflow{Overflow: o, width: p.width}
	}
	return p
}

// Add packs a record into bucket, and emits the bucket's chunk when it is full. It copies the
// record.
func (p *Packer) Add(bucket uint32, record []byte, emit Emit) {
	var chunk []byte
	if p.width == 0 {
		chunk = p.room(bucket, binary.MaxVarintLen32+len(record), emit)
		chunk = binary.AppendUvarint(chunk, uint64(len(record)))
	} else {
		if len(record) != p.width {
			panic(fmt.Sprintf("packed: record of %d bytes in chunks of width %d", len(record), p.width))
		}
		chunk = p.room(bucket, p.width, emit)
	}
	p.chunks[bucket] = append(chunk, record...)
}

// room returns the bucket's chunk with capacity for n more bytes.
func (p *Packer) room(bucket uint32, n int, emit Emit) []byte {
	chunk := p.chunks[bucket]
	if len(chunk)+n <= cap(chunk) {
		return chunk
	}
	if p.held > PackerSize {
		p.flush(emit)
		chunk = nil
	}
	if len(chunk)+n > ChunkSize && len(chunk) > 0 {
		p.emit(bucket, chunk, emit)
		fresh := make([]byte, 0, max(ChunkSize, n))
		p.held += cap(fresh) - cap(chunk)
		return fresh
	}
	grown := make([]byte, len(chunk), min(max(512, 4*cap(chunk), len(chunk)+n), max(ChunkSize, len(chunk)+n)))
	copy(grown, chunk)
	p.held += cap(grown) - cap(chunk)
	return grown
}

func (p *Packer) emit(bucket uint32, chunk []byte, emit Emit) {
	p.packed += int64(len(chunk))
	if p.over != nil {
		p.over.take(bucket, chunk, emit)
	} else {
		emit(bucket, chunk)
	}
}

// Packed is the number of bytes emitted, or written to files, since it was last called.
func (p *Packer) Packed() int {
	n := int(p.packed)
	p.packed = 0
	return n
}

// Flush emits the chunks that are left, in the order of buckets. Its error is the error of writing
// files, at any time before, and fails the bundle: without an [Overflow] there is none.
func (p *Packer) Flush(emit Emit) error {
	p.flush(emit)
	if p.over == nil {
		return nil
	}
	p.over.write(emit)
	return p.over.err
}

func (p *Packer) flush(emit Emit) {
	for bucket, chunk := range p.chunks {
		if len(chunk) > 0 {
			p.emit(uint32(bucket), slices.Clip(chunk), emit)
		}
		p.chunks[bucket] = nil
	}
	p.held = 0
}

// Records calls f for each record of a chunk, in their order in it, until f fails. Records are
// parts of the chunk. It fails if the chunk does not hold whole records. The chunk may be in a
// file, see [Overflow].
func Records(chunk []byte, width int, f func(record []byte) error) error {
	chunk, err := resolve(chunk, width)
	if err != nil {
		return err
	}
	for off := 0; off < len(chunk); {
		start, end, err := next(chunk, off, width)
		if err != nil {
			return err
		}
		if err := f(chunk[start:end:end]); err != nil {
			return err
		}
		off = end
	}
	return nil
}

// next finds the record at off.
func next(chunk []byte, off, width int) (start, end int, err error) {
	start = off
	if width == 0 {
		n, k := binary.Uvarint(chunk[off:])
		if k <= 0 || n > uint64(len(chunk)-off-k) {
			return 0, 0, fmt.Errorf("packed: chunk of %d bytes: no whole record at byte %d", len(chunk), off)
		}
		start, width = off+k, int(n)
	}
	if width > len(chunk)-start {
		return 0, 0, fmt.Errorf("packed: chunk of %d bytes: no whole record of %d bytes at byte %d", len(chunk), width, off)
	}
	return start, start + width, nil
}

// Package packed moves small records through a shuffle in chunks.
//
// A GroupByKey pays for each element that it moves, and a graph has 1e8 edges. So records of a few
// bytes are gathered by hash bucket into chunks of about [ChunkSize] bytes. The GroupByKey moves
// pairs (bucket, chunk) as KV<uint32, []byte>, with Beam's own coders, and the DoFn after it sorts
// each bucket:
//
//	Packer.Add(bucket, record, emit) → beam.GroupByKey → Sort(chunks), Sorter.Each(func(record))
//
// A record is a byte string, and records are ordered by their bytes, so numbers in them are written
// big endian. In a chunk its length stands before it, as a varint. The number of buckets follows from
// the size of the data ([Buckets]). A bucket may still be larger, with one hot owner for example; it is
// then sorted through temporary files instead of in memory.
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
	// BucketSize is the intended upper bound on the bytes of a bucket.
	BucketSize = 64 << 20
	// PackerSize is the number of bytes that a Packer holds before it emits every chunk, full or
	// not: with very many buckets most chunks stay small.
	PackerSize = 128 << 20
	// MaxBuckets bounds the number of buckets, so that a bucket's number fits into three bytes.
	MaxBuckets = 1 << 24
)

// Buckets returns the number of buckets, from 1 to MaxBuckets, for a shuffle of total bytes.
func Buckets(total int64) int {
	return int(min(max(1, (total+BucketSize-1)/BucketSize), MaxBuckets))
}

// Bucket maps a uniformly distributed word to one of n buckets. Buckets are contiguous ranges of
// words, in order.
func Bucket(word uint64, n int) uint32 {
	hi, _ := bits.Mul64(word, uint64(n))
	return uint32(hi)
}

// Mix is the finaliser of SplitMix64, a permutation that spreads its input over all bits.
func Mix(v uint64) uint64 {
	v = (v ^ v>>30) * 0xbf58476d1ce4e5b9
	v = (v ^ v>>27) * 0x94d049bb133111eb
	return v ^ v>>31
}

// Emit takes a finished chunk. The packer does not change the chunk afterwards.
type Emit = func(bucket uint32, chunk []byte)

// Packer gathers records into chunks by bucket, in about [PackerSize] bytes of memory. A DoFn makes
// one in StartBundle, calls Add in ProcessElement and Flush in FinishBundle. It is not safe for
// concurrent use.
type Packer struct {
	chunks [][]byte
	held   int // bytes allocated for chunks
	over   *overflow
}

// NewPacker returns a packer for records in a number of buckets.
func NewPacker(buckets int) *Packer { return &Packer{chunks: make([][]byte, buckets)} }

// Over makes the packer put the chunks that are too much for one bundle into o.
func (p *Packer) Over(o Overflow) *Packer {
	if o.After == 0 {
		o.After = DefaultOverflowAfter
	}
	if o.Dir != "" {
		p.over = &overflow{Overflow: o}
	}
	return p
}

// Add packs a copy of record into bucket, and emits the bucket's chunk when it is full.
func (p *Packer) Add(bucket uint32, record []byte, emit Emit) {
	chunk := p.room(bucket, binary.MaxVarintLen32+len(record), emit)
	chunk = binary.AppendUvarint(chunk, uint64(len(record)))
	p.chunks[bucket] = append(chunk, record...)
}

// AddAlone makes a chunk of one record, which should be about as large as a chunk. It goes to any
// bucket, also to one that the packer has no room for.
func (p *Packer) AddAlone(bucket uint32, record []byte, emit Emit) {
	p.Pass(bucket, Chunk(record), emit)
}

// Chunk returns a chunk of one record, the parts of which are given.
func Chunk(parts ...[]byte) []byte {
	n := 0
	for _, part := range parts {
		n += len(part)
	}
	chunk := binary.AppendUvarint(make([]byte, 0, binary.MaxVarintLen32+n), uint64(n))
	for _, part := range parts {
		chunk = append(chunk, part...)
	}
	return chunk
}

// room returns the bucket's chunk with capacity for n more bytes. It may emit chunks to make room.
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
		p.Pass(bucket, chunk, emit)
		fresh := make([]byte, 0, max(ChunkSize, n))
		p.held += cap(fresh) - cap(chunk)
		return fresh
	}
	grown := make([]byte, len(chunk), min(max(512, 4*cap(chunk), len(chunk)+n), max(ChunkSize, len(chunk)+n)))
	copy(grown, chunk)
	p.held += cap(grown) - cap(chunk)
	return grown
}

// Pass passes on a chunk as it is. It may be of any form that does not begin with ten bytes 255.
func (p *Packer) Pass(bucket uint32, chunk []byte, emit Emit) {
	if p.over != nil {
		p.over.take(bucket, chunk, emit)
	} else {
		emit(bucket, chunk)
	}
}

// Flush emits the remaining chunks in the order of buckets. It returns the first error of writing
// overflow files, which must fail the bundle; without [Packer.Over] it returns nil.
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
			p.Pass(uint32(bucket), slices.Clip(chunk), emit)
		}
		p.chunks[bucket] = nil
	}
	p.held = 0
}

// Records calls f for each record of a chunk, in order, until f fails. A record is a slice of the
// chunk. Records fails if the chunk does not consist of whole records. The chunk may be a reference
// to a file: see [Overflow].
func Records(chunk []byte, f func(record []byte) error) error {
	chunk, err := Resolve(chunk)
	if err != nil {
		return err
	}
	for off := 0; off < len(chunk); {
		start, end, err := next(chunk, off)
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

// next returns the bounds of the record that begins at off.
func next(chunk []byte, off int) (start, end int, err error) {
	n, k := binary.Uvarint(chunk[off:])
	if k <= 0 || n > uint64(len(chunk)-off-k) {
		return 0, 0, fmt.Errorf("chunk of %d bytes: no whole record at byte %d", len(chunk), off)
	}
	return off + k, off + k + int(n), nil
}

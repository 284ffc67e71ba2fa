package contribution

import (
	"encoding/binary"
	"fmt"

	"minsep/internal/ownergraph"
	"minsep/internal/packed"
)

func (c *Config) packer() *packed.Packer { return packed.NewPacker(c.Buckets).Over(c.Overflow) }

// packerToOne returns a packer for records of which one worker takes all, in bucket
// 0. Where there are files, each bundle passes on one chunk and puts the rest into files: a runner
// may hold all chunks of a bucket as one record, which in Flink ends at 2 GB.
func (c *Config) packerToOne() *packed.Packer {
	o := c.Overflow
	if o.After == 0 || o.After > packed.ChunkSize {
		o.After = packed.ChunkSize
	}
	return packed.NewPacker(1).Over(o)
}

// Records are byte strings that sort as their contents:
//
//	edge       example id, owner id                    by range of example ids, to gather examples
//	membership owner's hash and id, example's turn     by hash, to gather owners
//	ownership  example's turn, owner's number          all, for one worker
//	decision   place 4, copies 4, pools 2 each         by bucket of the example
//	example    place 4, example id, owner ids          by bucket of the example
//
// A number is a bucket, 3 bytes, and a place in it, 4 bytes; a turn is a class, 1 byte, a priority, 8
// bytes, and a number. Integer ids take 8 bytes, strings their own and an end.
const (
	hashBytes   = 8
	placeBytes  = 4
	copiesBytes = 4
	poolBytes   = 2
	numberBytes = 7
	turnBytes   = 1 + 8 + numberBytes
)

// number is a bucket and a place in it.
type number uint64

func newNumber(bucket, place uint32) number { return number(bucket)<<32 | number(place) }
func (n number) bucket() uint32             { return uint32(n >> 32) }
func (n number) place() uint32              { return uint32(n) }

func appendNumber(b []byte, n number) []byte {
	return append(b, byte(n>>48), byte(n>>40), byte(n>>32), byte(n>>24), byte(n>>16), byte(n>>8), byte(n))
}

func readNumber(b []byte) number {
	_ = b[6]
	return number(b[0])<<48 | number(b[1])<<40 | number(b[2])<<32 | number(binary.BigEndian.Uint32(b[3:]))
}

// turn is an example's place in the order of the greedy pass: the class of its owners
// ([ownergraph.Order.Class]), its priority, and its number, which is in the order of the ids.
type turn struct {
	class    uint8
	priority uint64
	example  number
}

func (t turn) append(b []byte) []byte {
	return appendNumber(binary.BigEndian.AppendUint64(append(b, t.class), t.priority), t.example)
}

// readExample returns the number of the example of an encoded turn.
func readExample(turn []byte) number { return readNumber(turn[turnBytes-numberBytes:]) }

// appendOwner appends a hash of the encoded owner id, by which owners are spread, and the bytes
// that tell owners of equal hash apart: none for integers, since the hash permutes them.
func (c *Config) appendOwner(b, id []byte) []byte {
	if c.Owners == ownergraph.Int64 {
		return binary.BigEndian.AppendUint64(b, packed.Mix(binary.BigEndian.Uint64(id)))
	}
	h := uint64(14695981039346656037) // FNV-1a
	for _, c := range id {
		h = (h ^ uint64(c)) * 1099511628211
	}
	return append(binary.BigEndian.AppendUint64(b, packed.Mix(h)), id...)
}

// ownerBucket is the bucket of a record that begins with an owner's hash.
func (c *Config) ownerBucket(record []byte) uint32 {
	return packed.Bucket(binary.BigEndian.Uint64(record), c.Buckets)
}

// sort calls body with a sorter of the chunks of a bucket.
func (c *Config) sort(chunks func(*[]byte) bool, body func(*packed.Sorter) error) error {
	return packed.Sort(c.SortMemory, c.TempDir, chunks, body)
}

// checkTypes refuses a batch of edges with ids of other types than the configured ones.
func (c *Config) checkTypes(e *ownergraph.Edges) error {
	if e.Examples.Type != c.Examples || e.Owners.Type != c.Owners {
		return fmt.Errorf("conflicting id types: edges of %v and %v ids among edges of %v and %v ids",
			e.Examples.Type, e.Owners.Type, c.Examples, c.Owners)
	}
	return nil
}

// eachOwner calls f with every encoded owner id of an example from its id on.
func (c *Config) eachOwner(example []byte, f func(id []byte)) error {
	n, err := c.Examples.SortableLen(example)
	for err == nil && n < len(example) {
		example = example[n:]
		if n, err = c.Owners.SortableLen(example); err == nil {
			f(example[:n])
		}
	}
	return err
}

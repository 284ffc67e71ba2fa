package ownergraph

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"minsep/internal/stream"
)

// Edges is a batch of edges of an example–owner graph: owner i of Owners owns example i of
// Examples. The columns are of equal length, and each has its own type. An edge may occur more than
// once.
type Edges struct {
	Examples, Owners IDs // of equal length
}

// Len returns the number of edges.
func (e *Edges) Len() int { return e.Examples.Len() }

// Reset empties the batch, keeps its memory, and sets the types of its columns.
func (e *Edges) Reset(example, owner IDType) {
	e.Examples.Reset(example)
	e.Owners.Reset(owner)
}

// AppendFrom adds edge i of another batch of the same types.
func (e *Edges) AppendFrom(o *Edges, i int) {
	e.Examples.AppendFrom(&o.Examples, i)
	e.Owners.AppendFrom(&o.Owners, i)
}

// check returns an error if the columns are not of equal length.
func (e *Edges) check() error {
	if e.Examples.Len() != e.Owners.Len() {
		return fmt.Errorf("%d examples and %d owners: edges have one of each", e.Examples.Len(), e.Owners.Len())
	}
	return nil
}

// AppendBinary appends the batch to b, in the form that [Edges.UnmarshalBinary] reads. A batch of
// about 64 KiB travels well between workers.
func (e *Edges) AppendBinary(b []byte) ([]byte, error) {
	if err := e.check(); err != nil {
		return b, err
	}
	return e.Owners.AppendBinary(e.Examples.AppendBinary(b)), nil
}

// UnmarshalBinary replaces the batch, types included, with the output of AppendBinary. It keeps
// no reference to b.
func (e *Edges) UnmarshalBinary(b []byte) error {
	b, err := e.Examples.Decode(b)
	if err == nil {
		b, err = e.Owners.Decode(b)
	}
	switch {
	case err != nil:
		return err
	case len(b) > 0:
		return fmt.Errorf("%d bytes after the edges", len(b))
	}
	return e.check()
}

// ErrEncoding is the error for bytes that no AppendBinary of this package wrote.
var ErrEncoding = errors.New("malformed column of ids")

// AppendBinary appends the column to b, in the form that [IDs.Decode] reads: the type, the number
// of ids, then integers as 8 bytes each, little endian, or the lengths of the strings as a byte
// each and their bytes.
func (c *IDs) AppendBinary(b []byte) []byte {
	b = append(b, byte(c.Type))
	b = binary.AppendUvarint(b, uint64(c.Len()))
	if c.Type == Int64 {
		b = slices.Grow(b, 8*len(c.ints))
		for _, v := range c.ints {
			b = binary.LittleEndian.AppendUint64(b, uint64(v))
		}
		return b
	}
	start := 0
	for _, end := range c.ends {
		b = append(b, byte(end-start))
		start = end
	}
	return append(b, c.text...)
}

// Decode replaces the column, type included, with the output of AppendBinary at the start of b, and
// returns the rest of b. It keeps no reference to b.
func (c *IDs) Decode(b []byte) ([]byte, error) {
	if len(b) == 0 || b[0] > byte(Bytes) {
		return nil, ErrEncoding
	}
	c.Reset(IDType(b[0]))
	n, k := binary.Uvarint(b[1:])
	if k <= 0 {
		return nil, ErrEncoding
	}
	b = b[1+k:]
	if c.Type == Int64 {
		if n > uint64(len(b))/8 { // before any allocation: n comes from outside
			return nil, ErrEncoding
		}
		c.ints = slices.Grow(c.ints, int(n))
		for ; n > 0; n-- {
			c.ints = append(c.ints, int64(binary.LittleEndian.Uint64(b)))
			b = b[8:]
		}
		return b, nil
	}
	if n > uint64(len(b)) {
		return nil, ErrEncoding
	}
	lengths, b := b[:n], b[n:]
	c.ends = slices.Grow(c.ends, len(lengths))
	end := 0
	for _, l := range lengths {
		end += int(l)
		c.ends = append(c.ends, end)
	}
	if end > len(b) {
		return nil, ErrEncoding
	}
	c.text = append(c.text, b[:end]...)
	return b[end:], nil
}

// The length of a string is written as one byte: this fails to compile if a string may be longer.
const _ = uint8(stream.MaxStringID)

package ownergraph

import (
	"bytes"
	"encoding/binary"
	"errors"
	"slices"

	"minsep/internal/stream"
)

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

// encodedBytes returns the largest length of the output of AppendBinary.
func (c *IDs) encodedBytes() int {
	return 1 + binary.MaxVarintLen64 + 8*len(c.ints) + len(c.ends) + len(c.text)
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

// ErrRecord is the error for a record that is not as its writer makes it.
var ErrRecord = errors.New("malformed record")

// AppendSortable appends id i so that encodings sort as ids and none is the beginning of another:
// integers with their sign bit flipped, big endian; strings with each 0 as 0 255, and an end of 0
// 0. Records that are sorted as bytes begin with it.
func (c *IDs) AppendSortable(b []byte, i int) []byte {
	if c.Type == Int64 {
		return binary.BigEndian.AppendUint64(b, uint64(c.Int(i))^1<<63)
	}
	id := c.Bytes(i)
	for {
		zero := bytes.IndexByte(id, 0)
		if zero < 0 {
			break
		}
		b = append(append(b, id[:zero]...), 0, 255)
		id = id[zero+1:]
	}
	return append(append(b, id...), 0, 0)
}

// SortableLen returns the length of the output of AppendSortable that b begins with. It returns
// [ErrRecord] if there is none.
func (t IDType) SortableLen(b []byte) (int, error) {
	if t == Int64 {
		if len(b) < 8 {
			return 0, ErrRecord
		}
		return 8, nil
	}
	for n := 0; ; {
		zero := bytes.IndexByte(b[n:], 0)
		if zero < 0 || n+zero+2 > len(b) {
			return 0, ErrRecord
		}
		n += zero + 2
		if b[n-1] == 0 {
			return n, nil
		}
	}
}

// AddSortable adds the id whose output of AppendSortable is exactly b.
func (c *IDs) AddSortable(b []byte) {
	if c.Type == Int64 {
		c.AppendInt(int64(binary.BigEndian.Uint64(b) ^ 1<<63))
		return
	}
	b = b[:len(b)-2]
	if bytes.IndexByte(b, 0) < 0 {
		c.AppendBytes(b)
		return
	}
	c.AppendBytes(bytes.ReplaceAll(b, []byte{0, 255}, []byte{0}))
}

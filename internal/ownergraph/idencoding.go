package ownergraph

import (
	"bytes"
	"encoding/binary"
	"errors"
)

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

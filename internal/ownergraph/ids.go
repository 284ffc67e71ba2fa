package ownergraph

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"minsep/internal/stream"
)

// IDType is the type of the ids of a column.
type IDType uint8

const (
	Int64  IDType = iota // 64-bit signed integers, ordered by value
	String               // strings in UTF-8 of at most stream.MaxStringID bytes, ordered by their bytes
	Bytes                // bytes, at most stream.MaxStringID; they are held and ordered as strings are
)

// String returns "int64", "string" or "bytes".
func (t IDType) String() string {
	switch t {
	case Int64:
		return "int64"
	case String:
		return "string"
	case Bytes:
		return "bytes"
	}
	return fmt.Sprintf("IDType(%d)", uint8(t))
}

// MarshalText writes the output of String.
func (t IDType) MarshalText() ([]byte, error) { return []byte(t.String()), nil }

// UnmarshalText reads the output of MarshalText.
func (t *IDType) UnmarshalText(b []byte) error {
	switch string(b) {
	case "int64":
		*t = Int64
	case "string":
		*t = String
	case "bytes":
		*t = Bytes
	default:
		return fmt.Errorf("id type %q: must be int64, string or bytes", b)
	}
	return nil
}

// IDs is a column of ids, all of one type. The zero value is an empty column of integers. It holds
// strings back to back, so that a column of any length is a few allocations.
type IDs struct {
	Type IDType // of all ids of the column
	ints []int64
	text []byte
	ends []int // text[ends[i-1]:ends[i]] is string i
}

// Len returns the number of ids.
func (c *IDs) Len() int {
	if c.Type == Int64 {
		return len(c.ints)
	}
	return len(c.ends)
}

// Reset empties the column, keeps its memory, and sets its type.
func (c *IDs) Reset(t IDType) { c.Type, c.ints, c.text, c.ends = t, c.ints[:0], c.text[:0], c.ends[:0] }

// Grow makes room for n more ids; for strings, it does not make room for their bytes.
func (c *IDs) Grow(n int) {
	if c.Type == Int64 {
		c.ints = slices.Grow(c.ints, n)
	} else {
		c.ends = slices.Grow(c.ends, n)
	}
}

// AppendInt adds an integer id to a column of type Int64.
func (c *IDs) AppendInt(id int64) { c.ints = append(c.ints, id) }

// AppendBytes adds a string id to a column of type String. It copies id.
func (c *IDs) AppendBytes(id []byte) {
	c.text = append(c.text, id...)
	c.ends = append(c.ends, len(c.text))
}

// AppendFrom adds id i of another column of the same type.
func (c *IDs) AppendFrom(o *IDs, i int) {
	if c.Type == Int64 {
		c.AppendInt(o.ints[i])
	} else {
		c.AppendBytes(o.Bytes(i))
	}
}

// AppendAll adds all ids of another column of the same type.
func (c *IDs) AppendAll(o *IDs) {
	c.ints = append(c.ints, o.ints...)
	start := len(c.text)
	c.text = append(c.text, o.text...)
	c.ends = slices.Grow(c.ends, len(o.ends))
	for _, end := range o.ends {
		c.ends = append(c.ends, start+end)
	}
}

// newIDs returns an empty column with room for n ids.
func newIDs(t IDType, n int) IDs {
	c := IDs{Type: t}
	c.Grow(n)
	return c
}

// Int returns id i of a column of type Int64.
func (c *IDs) Int(i int) int64 { return c.ints[i] }

// Bytes returns id i of a column of type String. The bytes are the column's own: do not change or
// keep them.
func (c *IDs) Bytes(i int) []byte {
	start := 0
	if i > 0 {
		start = c.ends[i-1]
	}
	return c.text[start:c.ends[i]]
}

// Format returns id i as text.
func (c *IDs) Format(i int) string {
	if c.Type == Int64 {
		return strconv.FormatInt(c.ints[i], 10)
	}
	return string(c.Bytes(i))
}

// Compare orders id i of c against id j of o: integers by value, strings by their bytes. Both
// columns are of one type.
func (c *IDs) Compare(i int, o *IDs, j int) int {
	if c.Type == Int64 {
		return cmp.Compare(c.ints[i], o.ints[j])
	}
	return bytes.Compare(c.Bytes(i), o.Bytes(j))
}

// Address returns the address of copy (0 for the first) of id i under the key of src.
func (c *IDs) Address(src *stream.Source, i int, copy uint32) stream.Address {
	if c.Type == Int64 {
		return src.IntAddress(c.ints[i], copy)
	}
	return src.BytesAddress(c.Bytes(i), copy)
}

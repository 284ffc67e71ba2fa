package idcolumn

import (
	"fmt"
	"io"
	"strconv"
	"unicode/utf8"

	"github.com/parquet-go/parquet-go/format"

	"minsep/internal/ownergraph"
	"minsep/internal/stream"
)

// appendInt adds an integer to ids, to a column of strings as its digits. Parquet stores unsigned
// numbers as signed ones: above 2^63 they look negative. A number that its type does not hold is read
// as it is by some programs, and cut to the type by others: they would see two owners.
func (c *Column) appendInt(dst *ownergraph.IDs, v int64) error {
	low, high := int64(-1)<<(c.bits-1), int64(1)<<(c.bits-1)-1
	if c.unsigned && c.bits < 64 {
		low, high = 0, int64(1)<<c.bits-1
	}
	switch big := c.unsigned && c.bits == 64 && v < 0; {
	case v < low || v > high:
		return Wide
	case dst.Type == ownergraph.Int64 && big:
		return Big
	case dst.Type == ownergraph.Int64:
		dst.AppendInt(v)
	case big:
		dst.AppendBytes(strconv.AppendUint(nil, uint64(v), 10))
	default:
		dst.AppendBytes(strconv.AppendInt(nil, v, 10))
	}
	return nil
}

// appendUUID adds the text of a UUID, as it would stand in a text file.
func appendUUID(dst *ownergraph.IDs, b []byte) {
	dst.AppendBytes(fmt.Appendf(nil, "%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:]))
}

// appendTo adds value i to a column.
func (v *values) appendTo(dst *ownergraph.IDs, i int, c *Column) error {
	var b []byte // bounded by the length of the data: beyond it lies what the memory held before
	switch v.kind {
	case format.Int64:
		return c.appendInt(dst, v.i64[i])
	case format.Int32:
		if c.unsigned {
			return c.appendInt(dst, int64(uint32(v.i32[i])))
		}
		return c.appendInt(dst, int64(v.i32[i]))
	case format.ByteArray:
		b = v.data[v.offsets[i]:v.offsets[i+1]:len(v.data)]
	default:
		if b = v.data[i*v.width : (i+1)*v.width : len(v.data)]; c.uuid {
			appendUUID(dst, b)
			return nil
		}
	}
	if len(b) == 0 {
		return Empty
	} else if len(b) > stream.MaxStringID && !c.Divided {
		return Long
	} else if dst.Type == ownergraph.String && !utf8.Valid(b) {
		return NotUTF8
	}
	dst.AppendBytes(b) // copies: the page will be gone
	return nil
}

// Reader reads a column of one row group in order.
type Reader struct {
	col   *Column
	pages *pageReader
	at    int // which entry of the page is next
	value int // which value is next: null entries have none
}

// Reader returns a reader of a column that Check has accepted.
func (f *File) Reader(c *Column, group int) *Reader {
	rg := &f.groups[group]
	if isEmpty(rg, c) {
		return &Reader{col: c, pages: new(pageReader)}
	}
	return &Reader{col: c, pages: pages(f.r, c, &rg.Columns[c.leaf].MetaData)}
}

// more makes sure that there is an entry at r.at. io.EOF says that the row group has no more.
func (r *Reader) more() error {
	if r.at < r.pages.entries {
		return nil
	}
	r.at, r.value = 0, 0
	return r.pages.next()
}

// Fill adds the next n ids of a flat column to dst. It returns how many entries it went through: n,
// or up to and including one with a [ValueError], which it passes over. Any other error ends the
// reading.
func (r *Reader) Fill(dst *ownergraph.IDs, n int) (done int, err error) {
	defer guard(&err)
	for done < n {
		if err := r.more(); err == io.EOF {
			return done, ErrCorrupt
		} else if err != nil {
			return done, err
		}
		done++
		if err := r.entry(dst); err != nil {
			return done, err
		}
	}
	return done, nil
}

// Row adds the ids of the next row of a column to dst, and returns how many: 0 for an empty list and
// for null. After a [ValueError] the row has been passed over. io.EOF says that there are
// no more rows.
func (r *Reader) Row(dst *ownergraph.IDs) (ids int, err error) {
	defer guard(&err)
	if err := r.more(); err != nil {
		return 0, err
	}
	p := r.pages
	if !r.col.List {
		before := dst.Len()
		if _, err := r.Fill(dst, 1); err != nil && err != Null {
			return 0, err
		}
		return dst.Len() - before, nil
	}
	if p.reps[r.at] != 0 { // a row begins at repetition level 0
		return 0, ErrCorrupt
	}
	var wrong error
	for first := true; ; first = false {
		if !first {
			if err := r.more(); err == io.EOF {
				return ids, wrong
			} else if err != nil {
				return ids, err
			}
			if p.reps[r.at] == 0 {
				return ids, wrong
			}
		}
		// Below the level of an id, the definition level tells a null among the ids from an empty
		// or missing list, which is a row's only entry.
		if def := p.defs[r.at]; def < r.col.maxDef {
			if def >= r.col.entryDef {
				wrong = Null
			} else if !first {
				return ids, ErrCorrupt
			}
			r.at++
			continue
		}
		if err := r.entry(dst); err != nil {
			wrong = err
		}
		ids++
	}
}

// entry adds the id of the next entry, which is on the page, to a column.
func (r *Reader) entry(dst *ownergraph.IDs) error {
	p, i := r.pages, r.value
	r.at++
	if r.col.maxDef > 0 && p.defs[r.at-1] != r.col.maxDef {
		return Null
	}
	r.value++
	if p.indexed {
		return p.dict.appendTo(dst, int(p.index[i]), r.col)
	}
	return p.vals.appendTo(dst, i, r.col)
}

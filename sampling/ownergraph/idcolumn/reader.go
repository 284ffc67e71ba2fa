package idcolumn

import (
	"bytes"
	"fmt"
	"io"
	"slices"
	"strconv"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"

	"minsep/sampling/ownergraph"
	"minsep/sampling/stream"
)

// values are the values of a page or of a dictionary, in parquet-go's memory: they are good until
// the page is released.
type values struct {
	kind    parquet.Kind
	i64     []int64
	i32     []int32
	data    []byte
	offsets []uint32
	width   int
}

// newValues takes the values of one of the four physical types that ids can have.
func newValues(v encoding.Values) (out values) {
	switch v.Kind() {
	case encoding.Int64:
		out.kind, out.i64 = parquet.Int64, v.Int64()
	case encoding.Int32:
		out.kind, out.i32 = parquet.Int32, v.Int32()
	case encoding.ByteArray:
		out.kind = parquet.ByteArray
		out.data, out.offsets = v.ByteArray()
	case encoding.FixedLenByteArray:
		out.kind = parquet.FixedLenByteArray
		out.data, out.width = v.FixedLenByteArray()
	default:
		panic(ErrCorrupt) // caught by guard
	}
	return out
}

// appendInt adds an integer to a column, to one of strings as its digits. Parquet stores unsigned
// numbers as signed ones: above 2^63 they look negative.
func appendInt(dst *ownergraph.IDs, v int64, unsigned bool) error {
	switch big := unsigned && v < 0; {
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
	var b []byte
	switch v.kind {
	case parquet.Int64:
		return appendInt(dst, v.i64[i], c.unsigned)
	case parquet.Int32:
		if c.unsigned {
			return appendInt(dst, int64(uint32(v.i32[i])), true)
		}
		return appendInt(dst, int64(v.i32[i]), false)
	case parquet.ByteArray:
		b = v.data[v.offsets[i]:v.offsets[i+1]]
	default:
		if b = v.data[i*v.width : (i+1)*v.width]; c.uuid {
			appendUUID(dst, b)
			return nil
		}
	}
	if len(b) == 0 {
		return Empty
	} else if len(b) > stream.MaxStringID {
		return Long
	}
	dst.AppendBytes(b) // copies: the page will be gone
	return nil
}

// Reader reads a column of one row group in order.
type Reader struct {
	col   *Column
	pages parquet.Pages
	page  parquet.Page
	left  int64 // entries on later pages

	defs, reps []byte // levels of the page's entries
	n, at      int    // entries of the page, and which is next
	value      int    // which value is next: null entries have none
	vals       values // of the page, or of the dictionary
	index      []int32
	indexed    bool
}

// Reader returns a reader of a column that Check has accepted, after a look at the headers of its
// pages.
func (f *File) Reader(c *Column, group int) (r *Reader, err error) {
	defer guard(&err)
	if isEmpty(&f.Metadata().RowGroups[group], c) {
		return &Reader{col: c}, nil
	}
	if err := checkPages(f.r, &f.Metadata().RowGroups[group].Columns[c.leaf].MetaData); err != nil {
		return nil, err
	}
	chunk := f.RowGroups()[group].ColumnChunks()[c.leaf]
	return &Reader{col: c, pages: chunk.Pages(), left: chunk.NumValues()}, nil
}

// Close frees the reader's memory.
func (r *Reader) Close() {
	parquet.Release(r.page)
	r.page = nil
	if r.pages != nil {
		r.pages.Close()
	}
}

// more makes sure that there is an entry at r.at. io.EOF says that the row group has no more.
func (r *Reader) more() error {
	for r.at == r.n { // a page may have no entries
		if r.left == 0 {
			return io.EOF
		}
		parquet.Release(r.page)
		r.page = nil
		page, err := r.pages.ReadPage()
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return ErrCorrupt
		} else if err != nil {
			return err
		}
		r.page = page
		n := page.NumValues()
		if n > r.left { // the pages have more entries than the footer says
			return ErrCorrupt
		}
		r.left -= n
		r.n, r.at, r.value = int(n), 0, 0
		r.defs, r.reps = page.DefinitionLevels(), page.RepetitionLevels()
		data := page.Data()
		dict := page.Dictionary()
		// A writer may begin a column with a dictionary and go on without: each page says for
		// itself.
		if r.indexed = dict != nil; r.indexed {
			r.index = data.Int32()
			data = dict.Page().Data()
		}
		r.vals = newValues(data)
		if r.vals.kind != r.col.physical || r.col.maxDef > 0 && len(r.defs) != r.n || r.col.List && len(r.reps) != r.n {
			return ErrCorrupt
		}
	}
	return nil
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
		// Runs without null are taken at once; the fast count of bytes finds out whether one is.
		m := min(n-done, r.n-r.at)
		if r.col.maxDef > 0 && bytes.Count(r.defs[r.at:r.at+m], []byte{r.col.maxDef}) != m {
			m = slices.IndexFunc(r.defs[r.at:r.at+m], func(d byte) bool { return d != r.col.maxDef })
			if m == 0 {
				r.at++
				return done + 1, Null
			}
		}
		took, err := r.take(dst, m)
		if done += took; err != nil {
			return done, err
		}
	}
	return done, nil
}

// Row adds the ids of the next row of a list column to dst, and returns how many: 0 for an empty
// list and for null. After a [ValueError] the row has been passed over. io.EOF says that there are
// no more rows.
func (r *Reader) Row(dst *ownergraph.IDs) (ids int, err error) {
	defer guard(&err)
	if err := r.more(); err != nil {
		return 0, err
	}
	if r.reps[r.at] != 0 { // a row begins at repetition level 0
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
			if r.reps[r.at] == 0 {
				return ids, wrong
			}
		}
		// Below the level of an id, the definition level tells a null among the ids from an empty
		// or missing list, which is a row's only entry.
		if def := r.defs[r.at]; def < r.col.maxDef {
			if def >= r.col.entryDef {
				wrong = Null
			} else if !first {
				return ids, ErrCorrupt
			}
			r.at++
			continue
		}
		n := 1
		for r.at+n < r.n && r.reps[r.at+n] != 0 && r.defs[r.at+n] == r.col.maxDef {
			n++
		}
		took, err := r.take(dst, n)
		if ids += took; err != nil {
			wrong = err
		}
	}
}

// take adds the next n entries, none of them null, to a column, and returns how many it went
// through, as Fill does.
func (r *Reader) take(dst *ownergraph.IDs, n int) (done int, err error) {
	first := r.value
	switch {
	case r.indexed:
		for _, x := range r.index[first : first+n] {
			done++
			if err = r.vals.appendTo(dst, int(x), r.col); err != nil {
				break
			}
		}
	case r.vals.kind == parquet.Int64 && !r.col.unsigned && dst.Type == ownergraph.Int64: // the most common, and never at fault
		for _, v := range r.vals.i64[first : first+n] {
			dst.AppendInt(v)
		}
		done = n
	default:
		for ; done < n && err == nil; done++ {
			err = r.vals.appendTo(dst, first+done, r.col)
		}
	}
	r.at += done
	r.value += done
	return done, err
}

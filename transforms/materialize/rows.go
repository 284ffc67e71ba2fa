package materialize

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"minsep/internal/words"
	"minsep/sampling/ownergraph/idcolumn"
)

// rowReader reads rows of a split, in their order.
type rowReader struct {
	data   *dataFile
	split  Split
	group  int          // row group that is read
	start  int          // row of the split with which it begins
	rows   parquet.Rows // of the group; nil before its first one is read
	buffer []parquet.Row
	held   []parquet.Row // rows of the buffer from row next on
	next   int           // row of the split
	given  int64         // bytes of the rows that were given
}

// The rows of a split may have at most so many bytes, and so many for each byte of the file: a
// value that is stored once can belong to millions of rows.
const (
	freeRowBytes    = 256 << 20
	rowBytesPerByte = 200
)

// rows reads rows of a split, as [appendRow] writes them. The rows that a caller asks for must
// ascend.
type rows interface {
	append(ctx context.Context, dst []byte, row int) ([]byte, error)
	close() error
}

// openRows returns the reader of a split.
func openRows(ctx context.Context, split Split) (rows, error) {
	if split.Named {
		return openNamedRows(ctx, split)
	}
	data, err := openData(ctx, split.Path, split.Stamp)
	return &rowReader{data: data, split: split, group: split.First, buffer: make([]parquet.Row, 64)}, err
}

// close ends the reading, and refuses a file that was changed meanwhile.
func (r *rowReader) close() error {
	return errors.Join(r.endGroup(), r.data.unchanged(), r.data.Close())
}

// endGroup closes the row group that is being read.
func (r *rowReader) endGroup() error {
	if r.rows == nil {
		return nil
	}
	rows := r.rows
	r.rows, r.held = nil, nil
	return r.fault(rows.Close())
}

// fault names the file and the row group of an error.
func (r *rowReader) fault(err error) error {
	if err == nil {
		return nil
	}
	return &DataError{File: r.split.Path, Rule: fmt.Sprintf("row group %d", r.group+1), Err: err}
}

// append appends a row as [appendRow] writes it. Rows must ascend.
func (r *rowReader) append(ctx context.Context, dst []byte, row int) (_ []byte, err error) {
	defer func() { // the library panics at damaged pages
		if recover() != nil {
			err = r.fault(idcolumn.ErrCorrupt)
		}
	}()
	for row >= r.start+int(r.data.GroupRows(r.group)) {
		if err := r.endGroup(); err != nil {
			return dst, err
		}
		r.start += int(r.data.GroupRows(r.group))
		r.next = r.start
		r.group++
	}
	if r.rows == nil {
		r.rows = r.data.RowGroups()[r.group].Rows()
	}
	for row >= r.next+len(r.held) {
		r.next += len(r.held)
		n, err := r.rows.ReadRows(r.buffer)
		if r.held = r.buffer[:n]; n > 0 { // an error comes again
			continue
		}
		if err == nil || err == io.EOF {
			err = idcolumn.ErrCorrupt
		}
		return dst, errors.Join(r.fault(err), ctx.Err())
	}
	r.held = r.held[row-r.next:]
	r.next = row
	for _, v := range r.held[0] {
		if k := v.Kind(); k == parquet.ByteArray || k == parquet.FixedLenByteArray {
			r.given += int64(len(v.ByteArray()))
		}
	}
	if size := r.data.file.Size(); r.given > freeRowBytes+rowBytesPerByte*size {
		return dst, &DataError{File: r.split.Path, Rule: fmt.Sprintf("has %s bytes, and its rows more than %s: values that repeat in so many rows would fill all disks: keep them in a table of their own, and their ids here",
			words.Grouped(size), words.Grouped(freeRowBytes+rowBytesPerByte*size))}
	}
	return appendRow(dst, r.held[0]), nil
}

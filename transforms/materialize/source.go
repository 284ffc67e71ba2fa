package materialize

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/parquet-go/parquet-go"

	"minsep/internal/param"
	"minsep/sampling/ownergraph"
	"minsep/sampling/ownergraph/graphio"
	"minsep/sampling/ownergraph/idcolumn"
)

// FaultPrefix begins the text of every fault of the data. Some runners pass on only the text of an
// error, and the prefix tells a fault of the data from others.
const FaultPrefix = "materialize: examples"

// DataError is a fault of the user's data. Its text may name ids of the example table, and nothing
// of the batches.
type DataError struct {
	File string // or empty
	Rule string // the broken rule, and the way out
	Err  error  // the cause, or nil
}

// Error has the file, the rule and the cause, as far as there are any.
func (e *DataError) Error() string {
	s := FaultPrefix
	for _, part := range []string{e.File, e.Rule} {
		if part != "" {
			s += ": " + part
		}
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

// Unwrap returns the cause.
func (e *DataError) Unwrap() error { return e.Err }

// Source describes files of examples that have been opened.
type Source struct {
	Files   int      // at least 1
	Rows    int64    // of all files, at least 0
	Bytes   int64    // of all rows, before compression, as the files say
	Columns []string // the names of the top-level columns, in their order
	Splits  []Split  // in the order of the files
}

// Split is a range of consecutive row groups of a file, or of files by name in a folder.
type Split struct {
	Number int    `json:"number"`          // among the splits, from 0
	Path   string `json:"path"`            // of the file, or the folder
	Stamp  string `json:"stamp"`           // which state of the file or the files was opened
	First  int    `json:"first"`           // row group, or file in the order of names, from 0
	Groups int    `json:"groups"`          // how many of them, at least 1
	Named  bool   `json:"named,omitempty"` // files by name
}

// splitBytes bounds the row groups of a split together, before compression. A larger row group is a
// split by itself.
const splitBytes = 64 << 20

// Data says where the examples are.
type Data struct {
	Paths    []string          // Parquet files, folders or patterns, local or in an object store; at least one
	IDColumn string            // the top-level column of ids
	IDs      ownergraph.IDType // of the example table
	Owners   bool              // owners take part: the files have one column more
	ByName   bool              // Paths are folders of files, each an example with its id as name; no IDColumn
}

// Open opens the files. It checks that all have the same columns, and that the column of ids has
// ids of the table's type. If the table has strings, integers are read as the strings of their
// digits. It reports every fault, each a [DataError].
func (d Data) Open(ctx context.Context) (*Source, error) {
	if d.ByName {
		return d.openNamed(ctx)
	}
	var files []string
	var errs []error
	for _, path := range d.Paths {
		found, err := graphio.Files{}.Expand(ctx, path)
		if err != nil {
			errs = append(errs, &DataError{File: path, Err: err})
		}
		files = append(files, found...)
	}
	if errs != nil {
		return nil, errors.Join(errs...)
	}
	s := &Source{Files: len(files)}
	var first *columns
	for i, name := range files {
		of, err := s.add(ctx, name, d)
		switch {
		case err != nil:
			errs = append(errs, err)
		case first == nil:
			first = of
			for _, f := range of.schema.Fields() {
				s.Columns = append(s.Columns, f.Name())
			}
		case !first.equal(of):
			errs = append(errs, &DataError{File: name, Rule: "must have the columns of the first file, " + files[0] + ", in the same order and of the same types"})
		}
		if left := len(files) - i - 1; len(errs) == graphio.MaxFaults && left > 0 {
			errs = append(errs, &DataError{Rule: fmt.Sprintf("%d more files were not looked at", left)})
			break
		}
	}
	return s, errors.Join(errs...)
}

// columns has the columns of a file.
type columns struct {
	schema  *parquet.Schema
	unknown []unknown
}

// equal reports whether two files have the same columns, in the same order and of the same types.
func (c *columns) equal(d *columns) bool {
	return parquet.EqualNodes(c.schema, d.schema) && slices.EqualFunc(c.unknown, d.unknown, unknown.equal)
}

// add adds a file.
func (s *Source) add(ctx context.Context, name string, d Data) (*columns, error) {
	f, err := openData(ctx, name, "")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	stamp, err := f.file.Stamp()
	if err != nil {
		return nil, &DataError{File: name, Err: err}
	}
	column, err := f.ids(d.IDColumn, d.IDs)
	if err != nil {
		return nil, err
	}
	for _, top := range f.Top() {
		if slices.Contains(added(d.Owners), top.Name()) {
			return nil, &DataError{File: name, Rule: fmt.Sprintf("column %s has the name of one that is added: give it another name", top.Name())}
		}
	}
	if shared := twice(f.Schema()); shared != "" {
		return nil, &DataError{File: name, Rule: fmt.Sprintf("has two columns %s in one place: give one of them another name", param.Printable(shared))}
	}
	held := int64(math.MaxInt64) // of the last split; none of this file yet
	for g := range f.Groups() {
		if _, err := f.Check(column, g); err != nil {
			return nil, &DataError{File: name, Rule: fmt.Sprintf("row group %d", g+1), Err: err}
		}
		group := f.Metadata().RowGroups[g]
		if group.NumRows >= math.MaxUint32/2 {
			return nil, &DataError{File: name, Rule: fmt.Sprintf("row group %d has %d rows: must be below 2^31", g+1, group.NumRows)}
		}
		bytes := max(0, group.TotalByteSize)
		s.Rows += group.NumRows
		s.Bytes += bytes
		if held > splitBytes-min(bytes, splitBytes) {
			s.Splits = append(s.Splits, Split{Number: len(s.Splits), Path: f.name, Stamp: stamp, First: g})
			held = 0
		}
		s.Splits[len(s.Splits)-1].Groups++
		held += bytes
	}
	return &columns{f.Schema(), newLayout(f.File.File, false, false).unknown}, nil
}

// dataFile is an open file of examples.
type dataFile struct {
	*idcolumn.File
	file  graphio.File
	name  string
	stamp string
}

// openData opens a file. If stamp is not empty, the file must be in that state, and unchanged
// checks that it still is.
func openData(ctx context.Context, name, stamp string) (*dataFile, error) {
	file, err := graphio.Files{}.Open(ctx, name)
	if err != nil {
		return nil, &DataError{File: name, Err: err}
	}
	d := &dataFile{file: file, name: name, stamp: stamp}
	if err := d.unchanged(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if err := d.begins(); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	if d.File, err = idcolumn.Open(file, file.Size()); err != nil {
		return nil, errors.Join(&DataError{File: name, Rule: "write it again", Err: err}, file.Close())
	}
	return d, nil
}

// begins refuses files that are not Parquet, such as a table of text or one that is compressed as a
// whole.
func (d *dataFile) begins() error {
	const magic, encrypted = "PAR1", "PARE"
	start := make([]byte, min(d.file.Size(), int64(len(magic))))
	if _, err := d.file.ReadAt(start, 0); err != nil && err != io.EOF {
		return &DataError{File: d.name, Err: err}
	}
	if text := string(start); text != magic && text != encrypted {
		return &DataError{File: d.name, Rule: "is not a Parquet file, which begins with PAR1 and is not compressed as a whole: write the examples as Parquet, " +
			"such as by pyarrow, or give --by-name with a folder of files named by their ids"}
	}
	return nil
}

// Close closes the file.
func (d *dataFile) Close() error { return d.file.Close() }

// unchanged refuses a file that is no longer the one that was opened first.
func (d *dataFile) unchanged() error {
	if d.stamp == "" {
		return nil
	}
	switch now, err := d.file.Stamp(); {
	case err != nil:
		return &DataError{File: d.name, Err: err}
	case now != d.stamp:
		return &DataError{File: d.name, Rule: "was changed since the command began: wait until nothing writes to it, and repeat the command"}
	}
	return nil
}

// ids finds the column of ids, for a table with ids of type want.
func (d *dataFile) ids(name string, want ownergraph.IDType) (*idcolumn.Column, error) {
	var names []string
	for _, top := range d.Top() {
		names = append(names, param.Printable(top.Name()))
		if top.Name() != name {
			continue
		}
		c, err := d.Column(top)
		if err == nil && c.List {
			err = errors.New("a list")
		}
		if err != nil {
			return nil, &DataError{File: d.name, Rule: "column " + param.Printable(name) + ": must hold one id a row, an integer or a string; --id-column names the column of ids", Err: err}
		}
		if want == ownergraph.Int64 && c.Type != ownergraph.Int64 {
			return nil, &DataError{File: d.name, Rule: "column " + param.Printable(name) + ": has strings, and the ids of the run's examples are integers: write it as integers, or name the column of ids with --id-column"}
		}
		return c, nil
	}
	return nil, &DataError{File: d.name, Rule: fmt.Sprintf("has no column %s: name the column of ids with --id-column; there are %s", param.Printable(name), strings.Join(names, ", "))}
}

// eachID calls f with the ids of a split, some at a time. first is the row in the split of the
// first of them.
func (s Split) eachID(ctx context.Context, column string, want ownergraph.IDType, f func(first int, ids *ownergraph.IDs) error) (err error) {
	if s.Named {
		return s.eachNamed(ctx, want, f)
	}
	d, err := openData(ctx, s.Path, s.Stamp)
	if err != nil {
		return err
	}
	defer d.Close()
	c, err := d.ids(column, want)
	if err != nil {
		return err
	}
	var ids ownergraph.IDs
	first := 0
	for g := s.First; g < s.First+s.Groups; g++ {
		if err := s.inGroup(d, g, c, func(r *idcolumn.Reader, rows int) error {
			ids.Reset(want)
			if _, err := r.Fill(&ids, rows); err != nil {
				return &DataError{File: s.Path, Rule: fmt.Sprintf("row group %d: column %s", g+1, param.Printable(column)), Err: err}
			}
			first += rows
			return f(first-rows, &ids)
		}); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return d.unchanged()
}

// idRows is the number of ids that are read at a time.
const idRows = 1 << 12

// inGroup calls f until all rows of a row group have been read.
func (s Split) inGroup(d *dataFile, group int, c *idcolumn.Column, f func(r *idcolumn.Reader, rows int) error) error {
	if _, err := d.Check(c, group); err != nil {
		return &DataError{File: s.Path, Rule: fmt.Sprintf("row group %d", group+1), Err: err}
	}
	r := d.Reader(c, group)
	for left := d.GroupRows(group); left > 0; {
		n := int(min(left, idRows))
		if err := f(r, n); err != nil {
			return err
		}
		left -= int64(n)
	}
	return nil
}

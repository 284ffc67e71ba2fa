package manifest

import (
	"errors"
	"fmt"
	"io"
	"math"

	"minsep/internal/idcolumn"
	"minsep/internal/ownergraph"
)

// ErrTable means that a part of a bounded graph is not as [BoundedWriter] writes it. Errors that wrap it
// never contain ids.
var ErrTable = errors.New("bounded table")

// BoundedPart is an open part of a bounded graph.
type BoundedPart struct {
	ExampleType, OwnerType ownergraph.IDType
	Pools                  bool  // whether rows tell their pools
	Rows                   int64 // number of rows, at least 0

	file    *idcolumn.File
	columns []*idcolumn.Column
}

// columnNames has the names of a part's columns. The last one exists only with pools.
var columnNames = []string{
	rowColumn:     "row",
	exampleColumn: "example_id",
	copiesColumn:  "copies",
	ownersColumn:  "owners",
	poolsColumn:   "pools",
}

// OpenBoundedPart reads the footer of a part of size bytes, and checks its columns.
func OpenBoundedPart(r io.ReaderAt, size int64) (*BoundedPart, error) {
	f, err := idcolumn.Open(r, size)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrTable, err)
	}
	top := f.Columns
	p := &BoundedPart{
		file:    f,
		Pools:   len(top) > poolsColumn,
		columns: make([]*idcolumn.Column, poolsColumn, len(columnNames)),
	}
	if p.Pools {
		p.columns = p.columns[:len(columnNames)]
	}
	for i, name := range columnNames[:len(p.columns)] {
		if len(top) != len(p.columns) || top[i].Name != name {
			return nil, fmt.Errorf("%w: %s: the columns must be row, example_id, copies and owners, and maybe pools", ErrTable, name)
		}
		c := top[i]
		if c.Err != nil {
			return nil, fmt.Errorf("%w: %s: %w", ErrTable, name, c.Err)
		}
		if c.List != (i >= ownersColumn) || i%2 == 0 && c.Type != ownergraph.Int64 { // row, copies and pools
			return nil, fmt.Errorf("%w: %s: has another type than this version writes", ErrTable, name)
		}
		p.columns[i] = c
	}
	p.ExampleType, p.OwnerType = p.columns[exampleColumn].Type, p.columns[ownersColumn].Type
	for g := range f.Groups() {
		for _, c := range p.columns {
			if _, err := f.Check(c, g); err != nil {
				return nil, fmt.Errorf("%w: row group %d: %s: %w", ErrTable, g+1, c.Name, err)
			}
		}
		p.Rows += f.GroupRows(g)
		if p.Rows < 0 {
			return nil, fmt.Errorf("%w: row group %d: %w", ErrTable, g+1, idcolumn.ErrCorrupt)
		}
	}
	return p, nil
}

// Each calls use with the rows of the part in order, at most size at a time. The part's first row
// must have the number first. If owners is false, owners are not read and every row has none. The
// rows are valid until use returns. An error of use ends the reading and is returned unchanged.
func (p *BoundedPart) Each(first int64, owners bool, size int, use func(r *ownergraph.Rows) error) error {
	var rows ownergraph.Rows
	var last ownergraph.IDs // last example before rows; empty at first
	for g := range p.file.Groups() {
		t := &boundedGroup{part: p, group: g, rows: &rows, last: &last}
		t.open(owners)
		var err error
		for left := p.file.GroupRows(g); err == nil && left > 0; {
			n := int(min(left, int64(size)))
			if err = t.read(first, n); err == nil {
				err = use(&rows)
			}
			first += int64(n)
			left -= int64(n)
		}
		if err == nil {
			err = t.end()
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// boundedGroup is a row group that is being read.
type boundedGroup struct {
	part    *BoundedPart
	group   int
	readers [5]*idcolumn.Reader
	numbers ownergraph.IDs
	rows    *ownergraph.Rows
	last    *ownergraph.IDs
}

func (t *boundedGroup) fault(column int, err error) error {
	return fmt.Errorf("%w: row group %d: %s: %w", ErrTable, t.group+1, t.part.columns[column].Name, err)
}

func (t *boundedGroup) open(owners bool) {
	for i, c := range t.part.columns {
		if i != ownersColumn || owners {
			t.readers[i] = t.part.file.Reader(c, t.group)
		}
	}
}

// read replaces t.rows with the next n rows.
func (t *boundedGroup) read(first int64, n int) error {
	t.rows.Reset(first, t.part.ExampleType, t.part.OwnerType)
	if err := t.fill(rowColumn, &t.numbers, n); err != nil {
		return err
	}
	for i := range n {
		if t.numbers.Int(i) != first+int64(i) {
			return t.fault(rowColumn, errors.New("rows are not numbered one after the other"))
		}
	}
	if err := t.fill(copiesColumn, &t.numbers, n); err != nil {
		return err
	}
	for i := range n {
		c := t.numbers.Int(i)
		if c < 1 || c > math.MaxInt32 {
			return t.fault(copiesColumn, errors.New("must be at least 1"))
		}
		t.rows.Copies = append(t.rows.Copies, uint32(c))
	}
	if err := t.fill(exampleColumn, &t.rows.Examples, n); err != nil {
		return err
	}
	for i := range n {
		if i > 0 && t.rows.Examples.Compare(i-1, &t.rows.Examples, i) >= 0 ||
			i == 0 && t.last.Len() > 0 && t.last.Compare(0, &t.rows.Examples, 0) >= 0 {
			return t.fault(exampleColumn, errors.New("the ids must ascend"))
		}
	}
	t.last.Reset(t.part.ExampleType)
	t.last.AppendFrom(&t.rows.Examples, n-1)
	if err := t.readPools(n); err != nil {
		return err
	}
	if t.readers[ownersColumn] == nil {
		t.rows.Ends = append(t.rows.Ends, make([]uint32, n)...)
		return nil
	}
	for range n {
		if _, err := t.readers[ownersColumn].Row(&t.rows.Owners); err != nil {
			return t.fault(ownersColumn, corruptEnd(err))
		}
		if t.rows.Owners.Len() > math.MaxInt32 {
			return t.fault(ownersColumn, errors.New("more than 2^31-1 owners in one piece"))
		}
		t.rows.Ends = append(t.rows.Ends, uint32(t.rows.Owners.Len()))
	}
	return nil
}

// readPools reads the pools of the next n rows, if the part has them.
func (t *boundedGroup) readPools(n int) error {
	r := t.readers[poolsColumn]
	if r == nil {
		return nil
	}
	for range n {
		t.numbers.Reset(ownergraph.Int64)
		in, err := r.Row(&t.numbers)
		if err != nil {
			return t.fault(poolsColumn, corruptEnd(err))
		}
		if in == 0 {
			return t.fault(poolsColumn, errors.New("a row must be in a pool"))
		}
		last := int64(-1)
		for i := range in {
			p := t.numbers.Int(i)
			if p <= last || p >= ownergraph.MaxPools {
				return t.fault(poolsColumn, fmt.Errorf("the pools of a row must ascend, from 0 on, below %d", ownergraph.MaxPools))
			}
			last = p
			t.rows.Pools = append(t.rows.Pools, uint32(p))
		}
		t.rows.PoolEnds = append(t.rows.PoolEnds, uint32(len(t.rows.Pools)))
	}
	return nil
}

// fill replaces dst with the next n values of a flat column.
func (t *boundedGroup) fill(column int, dst *ownergraph.IDs, n int) error {
	dst.Reset(t.part.columns[column].Type)
	if _, err := t.readers[column].Fill(dst, n); err != nil {
		return t.fault(column, err)
	}
	return nil
}

// end checks that no owners or pools are left over after the last row.
func (t *boundedGroup) end() error {
	for _, column := range []int{ownersColumn, poolsColumn} {
		r := t.readers[column]
		if r == nil {
			continue
		}
		t.numbers.Reset(t.part.columns[column].Type)
		if _, err := r.Row(&t.numbers); err != io.EOF {
			return t.fault(column, corruptEnd(err))
		}
	}
	return nil
}

func corruptEnd(err error) error {
	if err == nil || err == io.EOF {
		return idcolumn.ErrCorrupt
	}
	return err
}

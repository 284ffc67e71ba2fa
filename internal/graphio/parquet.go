package graphio

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"minsep/internal/idcolumn"
	"minsep/internal/ownergraph"
	"minsep/internal/words"
)

var parquetFormat = format{
	name:       Parquet,
	title:      "Parquet",
	extensions: []string{".parquet", ".pq"},
	magic:      []string{"PAR1", "PARE"},
	magicRule:  "a Parquet file begins with PAR1, and is not compressed as a whole",
	look:       lookParquet,
}

// parquetPart is a Parquet file.
type parquetPart struct {
	ExampleColumn string   `json:"example_column,omitempty"` // its name
	OwnerColumns  []string `json:"owner_columns,omitempty"`  // of one name
}

// parquetFault is a fault of the file or, counted from 1, of one of its row groups.
func parquetFault(group int, err error) *Fault {
	f := &Fault{RowGroup: group, Found: idcolumn.ErrCorrupt.Error()}
	if err != idcolumn.ErrCorrupt {
		f.Found, f.Err = "", err
	}
	return f
}

// lookParquet looks at the footer of a Parquet file.
func lookParquet(in *inspected, f File, o *Options) *Fault {
	file, err := idcolumn.Open(f, f.Size())
	if err != nil {
		return parquetFault(0, err)
	}
	s := &in.split
	s.SingleOwner = s.SingleOwner ||
		len(file.Columns) == 1 && o.OwnerColumn == "" && !s.RowIDs
	p := new(parquetPart)
	s.Parquet, in.readBytes = p, 0
	columns, fault := parquetColumns(in, file, p, o)
	if fault != nil {
		return fault
	}
	for g := range file.Groups() {
		for _, c := range columns {
			// All row groups are checked before the first is read: a fault is found in seconds, and
			// on this machine, not in a job.
			size, err := file.Check(c, g)
			if err != nil {
				return parquetFault(g+1, err)
			}
			in.readBytes += size
		}
		in.records = in.records || file.GroupRows(g) > 0
	}
	return nil
}

// parquetColumns finds the columns that are the file's.
func parquetColumns(
	in *inspected,
	file *idcolumn.File,
	p *parquetPart,
	o *Options,
) (columns []*idcolumn.Column, fault *Fault) {
	s := &in.split
	if !s.RowIDs {
		var c *idcolumn.Column
		if c, fault = findColumn(file, o.exampleNames(), position(o.ExampleColumn)); fault == nil {
			p.ExampleColumn, in.example = c.Name, idType{true, true, c.Type}
			columns = append(columns, c)
			if c.List {
				fault = &Fault{Column: c.Name, Found: "a list", Rule: "a row has the id of one example"}
			}
		}
	}
	if fault != nil || s.SingleOwner {
		return columns, fault
	}
	c, fault := findColumn(file, o.ownerNames(), position(o.OwnerColumn))
	if fault != nil {
		return nil, fault
	}
	if c.Name == p.ExampleColumn {
		return nil, &Fault{Column: c.Name, Found: "examples and owners in one column", Rule: columnsRule}
	}
	if c.Type == ownergraph.Bytes && s.divides() && !o.asIs() {
		return nil, &Fault{
			Column: c.Name,
			Found:  "a column of bytes, which --owner-separator does not divide",
			Rule:   "set --id-type string too if they are text",
		}
	}
	p.OwnerColumns, in.owner = []string{c.Name}, idType{true, true, c.Type}
	return append(columns, c), nil
}

const columnsRule = "set --example-column and --owner-column"

// columnNames are the names of the first columns, as a list in a sentence. Names that may be data,
// such as the first record of a file that was converted without a header, are only counted.
func columnNames(columns []*idcolumn.Column) string {
	const shown = 20
	var names []string
	for _, c := range columns[:min(shown, len(columns))] {
		if mayBeName.MatchString(c.Name) {
			names = append(names, c.Name)
		}
	}
	if more := len(columns) - len(names); more > 0 {
		names = append(names, words.Count(more, "other column"))
	}
	return strings.Join(names, ", ")
}

// findColumn looks for a top-level column by position or, if that is negative, by name.
func findColumn(file *idcolumn.File, names []string, at int) (*idcolumn.Column, *Fault) {
	top := file.Columns
	if at < 0 {
		for i, c := range top {
			for _, n := range names {
				if c.Name != n {
					continue
				}
				if at >= 0 {
					return nil, &Fault{
						Column: strings.Join(names, " or "),
						Found:  "more than one such column",
						Rule:   columnsRule,
					}
				}
				at = i
			}
		}
		if at < 0 {
			return nil, &Fault{
				Column: strings.Join(names, " or "),
				Found:  "no such column",
				Rule:   columnsRule + "; the file has " + columnNames(top),
			}
		}
	}
	if at >= len(top) {
		return nil, &Fault{
			Column: fmt.Sprintf("column %d", at+1),
			Found:  "the file has " + words.Count(len(top), "column"),
			Rule:   columnsRule,
		}
	}
	if c := top[at]; c.Err != nil {
		return nil, &Fault{
			Column: c.Name,
			Found:  c.Err.Error(),
			Rule:   "must be integers, strings or bytes, or for owners a list of them",
		}
	}
	return top[at], nil
}

// rowGroup reads one row group into a batcher.
type rowGroup struct {
	*batcher
	number           int // 1-based
	rows             int64
	columns          [2]*idcolumn.Column // examples, owners or nil
	examples, owners *idcolumn.Reader
	cells            ownergraph.IDs // of a row of owners that are to be divided
}

// read reads the row groups.
func (p *parquetPart) read(s *Split, f File, b *batcher) error {
	file, err := idcolumn.Open(f, f.Size())
	if err != nil {
		return b.fault(parquetFault(0, err))
	}
	var columns [2]*idcolumn.Column
	var fault *Fault
	if !s.RowIDs {
		if columns[0], fault = findColumn(file, []string{p.ExampleColumn}, -1); fault != nil {
			return b.fault(fault)
		}
	}
	if !s.SingleOwner {
		if columns[1], fault = findColumn(file, p.OwnerColumns, -1); fault != nil {
			return b.fault(fault)
		}
		columns[1].Divided = columns[1].Type != ownergraph.Int64 && s.divides()
	}
	// The split was made from an earlier look at the file, perhaps on another machine.
	if !readAs(columns[0], s.ExampleType, s.AsIs) || !readAs(columns[1], s.OwnerType, s.AsIs) ||
		columns[0] != nil && columns[0].List {
		return b.fault(
			&Fault{
				Found: "the file was changed since the graph was opened",
				Rule:  "wait until nothing writes to it, and repeat the command",
			},
		)
	}
	for group := range file.Groups() {
		g := &rowGroup{batcher: b, number: group + 1, rows: file.GroupRows(group), columns: columns}
		if err := g.read(file, group); err == nil || err == errDamaged { // a damaged group does not hide faults of others
			continue
		} else {
			return err
		}
	}
	return nil
}

// rows returns the number of rows, as the footer has it.
func (p *parquetPart) rows(f File) (int64, error) {
	file, err := idcolumn.Open(f, f.Size())
	if err != nil {
		return 0, err
	}
	return file.NumRows, nil
}

// readAs reports whether a column of the file can be read as ids of a type; c is nil if the file
// has no such column.
func readAs(c *idcolumn.Column, t ownergraph.IDType, asIs bool) bool {
	return c == nil || c.Type == t || asIs && t == ownergraph.String
}

// errDamaged says that a row group cannot be read on.
var errDamaged = errors.New("the row group is damaged")

// read gives the edges of the row group.
func (g *rowGroup) read(file *idcolumn.File, group int) (err error) {
	for i, r := range []**idcolumn.Reader{&g.examples, &g.owners} {
		c := g.columns[i]
		if c == nil {
			continue
		}
		if _, err := file.Check(c, group); err != nil {
			return g.idFault(0, c, err)
		}
		*r = file.Reader(c, group)
	}
	if g.owners != nil && (g.columns[1].List || g.columns[1].Divided || g.split.SkipOwnerless) {
		return g.readRows()
	}
	return g.readFlat()
}

// idFault records the fault of a row of a column, and returns errTooMany, or errDamaged if it
// is no fault of one value.
func (g *rowGroup) idFault(row int64, c *idcolumn.Column, err error) error {
	value, isValue := err.(idcolumn.ValueError)
	if !isValue {
		f := parquetFault(g.number, err)
		f.Column = c.Name
		if err := g.fault(f); err != nil {
			return err
		}
		return errDamaged
	}
	f := &Fault{RowGroup: g.number, Row: row + 1, Column: c.Name, Found: value.Error()}
	switch value {
	case idcolumn.Null, idcolumn.Empty:
		switch {
		case c != g.columns[1]:
			f.Rule = empty.rule(c.Type)
		case g.split.SkipOwnerless: // which leaves out examples without owners, and not an owner of several
			f.Rule = "an owner in a list has an id: leave it out of the list, or leave out the example"
		default:
			f.Rule = ownerlessRule
		}
	case idcolumn.Long:
		f.Rule = long.rule(c.Type)
	case idcolumn.NotUTF8:
		f.Rule = "write it as UTF-8, or ids that are bytes in a column of bytes"
	case idcolumn.Big:
		f.Rule = bigInteger.rule(ownergraph.Int64)
	case idcolumn.Wide:
		f.Rule = "programs disagree on what it is: write the column with a type that holds all its ids"
	}
	return g.fault(f)
}

// readFlat reads an edge list, or examples alone.
func (g *rowGroup) readFlat() error {
	for row := int64(0); row < g.rows; {
		// Both columns take the same number of rows, so that an edge is never in two batches.
		n := int(min(g.rows-row, int64(max(1, BatchEdges-g.Examples.Len()))))
		if err := g.fill(&g.Examples, g.examples, g.columns[0], row, n); err != nil {
			return err
		}
		if !g.SingleOwner {
			if err := g.fill(&g.Owners, g.owners, g.columns[1], row, n); err != nil {
				return err
			}
		}
		row += int64(n)
		if err := g.full(); err != nil {
			return err
		}
	}
	return nil
}

// fill takes the next n ids of a flat column, or numbers of rows, and records faults of values that
// are not ids.
func (g *rowGroup) fill(dst *ownergraph.IDs, r *idcolumn.Reader, c *idcolumn.Column, row int64, n int) error {
	if c == nil {
		for range n {
			g.appendRowID(dst)
		}
		return nil
	}
	for n > 0 {
		before := dst.Len()
		done, err := r.Fill(dst, n)
		for i := before; i < dst.Len() && dst.Type != ownergraph.Int64; i++ {
			if err := g.spelling(dst, i, c, row+int64(i-before)); err != nil {
				return err
			}
		}
		row += int64(done)
		n -= done
		if err != nil {
			if err := g.idFault(row-1, c, err); err != nil {
				return err
			}
		}
	}
	return nil
}

// spelling records text, of strings or of bytes, that stands for several owners, or that may be written in another way
// elsewhere, unless ids are kept as they are written.
func (g *rowGroup) spelling(dst *ownergraph.IDs, i int, c *idcolumn.Column, row int64) error {
	place := func() *Fault { return &Fault{RowGroup: g.number, Row: row + 1, Column: c.Name} }
	if c == g.columns[1] {
		if dst.Type == ownergraph.Bytes && !ownergraph.IsText(dst.Bytes(i)) {
			g.joined.off = true
		}
		if f := g.joined.look(dst.Bytes(i), place); f != nil {
			return g.fault(f)
		}
	}
	k := fits
	if !g.split.AsIs && dst.Type == ownergraph.String {
		k = spelling(dst.Bytes(i))
	}
	if k == fits {
		return nil
	}
	f := place()
	f.Found, f.Rule = k.String(), k.rule(dst.Type)
	return g.fault(f)
}

// row adds the owners of the next row.
func (g *rowGroup) row(row int64) (owners int, err error) {
	if !g.columns[1].Divided {
		return g.owners.Row(&g.Owners)
	}
	g.cells.Reset(ownergraph.String)
	_, err = g.owners.Row(&g.cells)
	before := g.Owners.Len()
	place := func(int) *Fault { return &Fault{RowGroup: g.number, Row: row + 1, Column: g.columns[1].Name} }
	for i := range g.cells.Len() {
		for _, part := range g.split.owners(nil, g.cells.Bytes(i)) {
			if f := g.appendValue(1, part, place); f != nil {
				if err := g.fault(f); err != nil {
					return 0, err
				}
			}
		}
	}
	return g.Owners.Len() - before, err
}

// readRows reads rows of an example and a list of owners, or one owner or null.
func (g *rowGroup) readRows() error {
	var example ownergraph.IDs
	for row := range g.rows {
		example.Reset(g.split.ExampleType)
		if err := g.fill(&example, g.examples, g.columns[0], row, 1); err != nil {
			return err
		}
		before := g.Owners.Len()
		n, err := g.row(row)
		for i := before; i < g.Owners.Len() && g.Owners.Type != ownergraph.Int64 && !g.columns[1].Divided; i++ {
			if err := g.spelling(&g.Owners, i, g.columns[1], row); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			err = idcolumn.ErrCorrupt
		case err == nil && n == 0 && g.split.SkipOwnerless:
			g.Ownerless++
		case err == nil && n == 0:
			if err := g.fault(&Fault{RowGroup: g.number, Row: row + 1, Column: g.columns[1].Name, Found: "an example without owners", Rule: ownerlessRule}); err != nil {
				return err
			}
		}
		if err != nil {
			if err := g.idFault(row, g.columns[1], err); err != nil {
				return err
			}
		}
		for range n * example.Len() { // the example is missing if it had a fault
			g.Examples.AppendFrom(&example, 0)
		}
		if err := g.full(); err != nil {
			return err
		}
	}
	if _, err := g.owners.Row(&g.Owners); err != io.EOF {
		return g.idFault(0, g.columns[1], idcolumn.ErrCorrupt)
	}
	return nil
}

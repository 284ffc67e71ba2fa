package graphio

import (
	"bytes"
	"errors"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/encoding"

	"minsep/sampling/ownergraph"
	"minsep/sampling/stream"
)

// values are those of a page or of a dictionary.
type values struct {
	kind    parquet.Kind
	i64     []int64
	i32     []int32
	data    []byte
	offsets []uint32
	width   int
}

func newValues(v encoding.Values) values {
	out := values{}
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
		panic(errCorrupt) // caught where the row group is read
	}
	return out
}

// appendTo adds value i to a column.
func (v *values) appendTo(dst *ownergraph.IDs, i int, unsigned bool) kind {
	switch v.kind {
	case parquet.Int64:
		if unsigned && v.i64[i] < 0 {
			return bigInteger
		}
		dst.AppendInt(v.i64[i])
		return fits
	case parquet.Int32:
		if unsigned {
			dst.AppendInt(int64(uint32(v.i32[i])))
		} else {
			dst.AppendInt(int64(v.i32[i]))
		}
		return fits
	}
	var b []byte
	if v.kind == parquet.ByteArray {
		b = v.data[v.offsets[i]:v.offsets[i+1]]
	} else {
		b = v.data[i*v.width : (i+1)*v.width]
	}
	if len(b) == 0 {
		return empty
	} else if len(b) > stream.MaxStringID {
		return long
	}
	dst.AppendBytes(b)
	return fits
}

// leafReader reads a column of one row group, page by page.
type leafReader struct {
	col   *parquetColumn
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

func newLeafReader(rg parquet.RowGroup, col *parquetColumn) *leafReader {
	chunk := rg.ColumnChunks()[col.leaf]
	return &leafReader{col: col, pages: chunk.Pages(), left: chunk.NumValues()}
}

func (r *leafReader) close() {
	parquet.Release(r.page)
	r.pages.Close()
}

// more makes sure that there is an entry at r.at. io.EOF says that the row group has no more.
func (r *leafReader) more() error {
	for r.at == r.n {
		if r.left == 0 {
			return io.EOF
		}
		parquet.Release(r.page)
		r.page = nil
		page, err := r.pages.ReadPage()
		if err == io.EOF || err == io.ErrUnexpectedEOF {
			return errCorrupt
		} else if err != nil {
			return err
		}
		r.page = page
		n := page.NumValues()
		if n > r.left {
			return errCorrupt
		}
		r.left -= n
		r.n, r.at, r.value = int(n), 0, 0
		r.defs, r.reps = page.DefinitionLevels(), page.RepetitionLevels()
		dict := page.Dictionary()
		if r.indexed = dict != nil; r.indexed {
			data := page.Data()
			r.index = data.Int32()
			r.vals = newValues(dict.Page().Data())
		} else {
			r.vals = newValues(page.Data())
		}
		if r.vals.kind != r.col.physical || r.col.maxDef > 0 && len(r.defs) != r.n || r.col.list && len(r.reps) != r.n {
			return errCorrupt
		}
	}
	return nil
}

// nulls says whether one of the next n entries is null.
func (r *leafReader) nulls(n int) bool {
	return r.col.maxDef > 0 && bytes.Count(r.defs[r.at:r.at+n], []byte{r.col.maxDef}) != n
}

// take adds the next n entries, none of them null, to a column, and returns how many it added before one that does not
// fit; that one is passed over.
func (r *leafReader) take(dst *ownergraph.IDs, n int) (int, kind) {
	first := r.value
	switch {
	case r.indexed:
		for i, x := range r.index[first : first+n] {
			if k := r.vals.appendTo(dst, int(x), r.col.unsigned); k != fits {
				return r.taken(i + 1), k
			}
		}
	case r.vals.kind == parquet.Int64 && !r.col.unsigned:
		for _, v := range r.vals.i64[first : first+n] {
			dst.AppendInt(v)
		}
	default:
		for i := range n {
			if k := r.vals.appendTo(dst, first+i, r.col.unsigned); k != fits {
				return r.taken(i + 1), k
			}
		}
	}
	return r.taken(n), fits
}

func (r *leafReader) taken(n int) int {
	r.at += n
	r.value += n
	return n
}

// rowGroup reads one row group into a batcher.
type rowGroup struct {
	*batcher
	number           int // 1-based
	rows             int64
	examples, owners *leafReader
}

// readParquet reads the row groups of a split.
func (s *Split) readParquet(f File, b *batcher) error {
	file, err := openParquet(f)
	if err != nil {
		return b.fault(&Fault{Found: errCorrupt.Error(), Err: err})
	}
	examples, fault := findColumn(file, []string{s.ExampleColumn}, -1)
	if fault != nil {
		return b.fault(fault)
	}
	var owners *parquetColumn
	if !s.SingleOwner {
		if owners, fault = findColumn(file, s.OwnerColumns, -1); fault != nil {
			return b.fault(fault)
		}
	}
	groups := file.RowGroups()
	if s.FirstRowGroup+s.RowGroups > len(groups) || examples.id != s.ExampleType || owners != nil && owners.id != s.OwnerType || examples.list {
		return b.fault(&Fault{Found: "another file than when the graph was opened"})
	}
	for i := range s.RowGroups {
		g := s.FirstRowGroup + i
		rg := &rowGroup{batcher: b, number: g + 1, rows: groups[g].NumRows()}
		for _, c := range []*parquetColumn{examples, owners} {
			if c == nil {
				continue
			}
			if err = checkPages(f, &file.Metadata().RowGroups[g].Columns[c.leaf].MetaData); err != nil {
				break
			}
		}
		if err != nil {
			err = rg.damaged(err)
		} else {
			err = rg.read(groups[g], examples, owners)
		}
		if err != nil && err != errDamaged {
			return err
		}
	}
	return nil
}

// read gives the edges of the row group.
func (g *rowGroup) read(rg parquet.RowGroup, examples, owners *parquetColumn) (err error) {
	emit := g.emit
	emitting := false
	g.emit = func(b *Batch) error {
		emitting = true
		err := emit(b)
		emitting = false
		return err
	}
	defer func() {
		g.emit = emit
		if emitting {
			return // a panic of the caller's own, which goes on
		}
		if r := recover(); r != nil { // the library's, or an index of a damaged page
			err = g.damaged(errCorrupt)
		}
	}()
	g.examples = newLeafReader(rg, examples)
	defer g.examples.close()
	if owners == nil {
		return g.readFlat()
	}
	g.owners = newLeafReader(rg, owners)
	defer g.owners.close()
	if owners.list {
		return g.readLists()
	}
	return g.readFlat()
}

// damaged records that the row group cannot be read on, and returns errDamaged or errTooMany.
func (g *rowGroup) damaged(err error) error {
	f := &Fault{RowGroup: g.number, Found: errCorrupt.Error()}
	if err != errCorrupt {
		f.Err = err
	}
	if err := g.fault(f); err != nil {
		return err
	}
	return errDamaged
}

var errDamaged = errors.New("graphio: the row group is damaged")

// idFault records an id that cannot be taken.
func (g *rowGroup) idFault(row int64, c *parquetColumn, found, rule string) error {
	return g.fault(&Fault{RowGroup: g.number, Row: row + 1, Column: c.name, Found: found, Rule: rule})
}

// readFlat reads an edge list, or examples alone.
func (g *rowGroup) readFlat() error {
	for row := int64(0); row < g.rows; {
		n := min(g.rows-row, int64(max(1, BatchEdges-g.Examples.Len())))
		if err := g.fill(&g.Examples, g.examples, row, n); err != nil {
			return err
		}
		if g.owners != nil {
			if err := g.fill(&g.Owners, g.owners, row, n); err != nil {
				return err
			}
		}
		row += n
		if err := g.full(); err != nil {
			return err
		}
	}
	return nil
}

// fill takes the next n ids of a flat column.
func (g *rowGroup) fill(dst *ownergraph.IDs, r *leafReader, row, n int64) error {
	for end := row + n; row < end; {
		if err := r.more(); err != nil {
			return g.damaged(errCorruptAt(err))
		}
		m := int(min(end-row, int64(r.n-r.at)))
		if r.nulls(m) {
			if m = slices.IndexFunc(r.defs[r.at:r.at+m], func(d byte) bool { return d != r.col.maxDef }); m == 0 {
				if err := g.idFault(row, r.col, "null", "must be an id"); err != nil {
					return err
				}
				r.at++
				row++
				continue
			}
		}
		took, k := r.take(dst, m)
		row += int64(took)
		if k != fits {
			if err := g.idFault(row-1, r.col, k.String(), k.rule(r.col.id)); err != nil {
				return err
			}
		}
	}
	return nil
}

// errCorruptAt turns an early end into damage.
func errCorruptAt(err error) error {
	if err == io.EOF {
		return errCorrupt
	}
	return err
}

// readLists reads rows of an example and a list of owners.
func (g *rowGroup) readLists() error {
	var example ownergraph.IDs
	r := g.owners
	row := int64(-1)
	for {
		err := r.more()
		if err == io.EOF {
			break
		} else if err != nil {
			return g.damaged(err)
		}
		if r.reps[r.at] == 0 {
			row++
			if row == g.rows {
				return g.damaged(errCorrupt)
			}
			example.Reset(g.split.ExampleType)
			if err := g.fill(&example, g.examples, row, 1); err != nil {
				return err
			}
		} else if row < 0 {
			return g.damaged(errCorrupt)
		}
		if err := g.entries(&example, row); err != nil {
			return err
		}
		if err := g.full(); err != nil {
			return err
		}
	}
	if row+1 != g.rows {
		return g.damaged(errCorrupt)
	}
	return nil
}

// entries takes the owners of a row, as far as they are on the page.
func (g *rowGroup) entries(example *ownergraph.IDs, row int64) error {
	r := g.owners
	if def := r.defs[r.at]; def < r.col.maxDef {
		first := r.reps[r.at] == 0
		r.at++
		switch {
		case def >= r.col.entryDef:
			return g.idFault(row, r.col, "null", "must be an id")
		case !first:
			return g.damaged(errCorrupt)
		case g.split.SkipOwnerless:
			g.Ownerless++
			return nil
		}
		return g.idFault(row, r.col, "an example without owners", ownerlessRule)
	}
	n := 1
	for r.at+n < r.n && r.reps[r.at+n] != 0 && r.defs[r.at+n] == r.col.maxDef {
		n++
	}
	took, k := r.take(&g.Owners, n)
	if k != fits {
		return g.idFault(row, r.col, k.String(), k.rule(r.col.id))
	}
	if example.Len() == 1 { // else it had a fault
		for range took {
			g.Examples.AppendFrom(example, 0)
		}
	}
	return nil
}

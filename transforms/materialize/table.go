package materialize

import (
	"context"
	"errors"
	"fmt"
	"sort"

	"minsep/manifest"
	"minsep/sampling/ownergraph"
)

// table is the example table: its parts have ascending rows and ids.
type table struct {
	dir    string // empty where rows are the ids
	parts  []manifest.BoundedFile
	firsts ownergraph.IDs // the first id of each part
}

// rangeRows is the number of rows of a part of a table that has its rows as ids.
const rangeRows = 1 << 20

// openTable opens the table. Without one the ids are 0 to the number of examples less one, in parts
// of rangeRows.
func (c Config) openTable(ctx context.Context) (*table, error) {
	t := &table{dir: c.Table}
	if c.Table == "" {
		batches, err := manifest.OpenBatches(ctx, c.Batches)
		if err != nil {
			return nil, err
		}
		for first := int64(0); first < batches.Facts.Examples; first += rangeRows {
			t.parts = append(t.parts, manifest.BoundedFile{First: first, Rows: min(rangeRows, batches.Facts.Examples-first)})
			t.firsts.AppendInt(first)
		}
		return t, nil
	}
	bounded, err := manifest.OpenBounded(ctx, c.Table)
	if err != nil {
		return nil, err
	}
	t.firsts.Reset(bounded.ExampleType)
	for _, part := range bounded.Parts {
		if part.Rows == 0 {
			continue
		}
		done := errors.New("read")
		err := part.Each(ctx, c.Table, false, 1, func(r *ownergraph.Rows) error {
			t.firsts.AppendFrom(&r.Examples, 0)
			return done
		})
		if err != done {
			return nil, errors.Join(err, ctx.Err())
		}
		t.parts = append(t.parts, part)
	}
	return t, nil
}

// partOf returns the only part that can have id i of a column, or -1 if none can.
func (t *table) partOf(ids *ownergraph.IDs, i int) int {
	return sort.Search(len(t.parts), func(p int) bool { return t.firsts.Compare(p, ids, i) > 0 }) - 1
}

// partOfRow returns the part that has a row of the table, and the row's number within it.
func (t *table) partOfRow(row int64) (part int, within uint32, err error) {
	part = sort.Search(len(t.parts), func(p int) bool { return t.parts[p].First > row }) - 1
	if part < 0 || row-t.parts[part].First >= t.parts[part].Rows {
		return 0, 0, fmt.Errorf("materialize: the batches have a row that is not in the table")
	}
	return part, uint32(row - t.parts[part].First), nil
}

// ids returns the ids of a part, ascending.
func (t *table) ids(ctx context.Context, part int) (*ownergraph.IDs, error) {
	ids := new(ownergraph.IDs)
	ids.Reset(t.firsts.Type)
	p := t.parts[part]
	if t.dir == "" {
		for i := range p.Rows {
			ids.AppendInt(p.First + i)
		}
		return ids, nil
	}
	err := p.Each(ctx, t.dir, false, idRows, func(r *ownergraph.Rows) error {
		for i := range r.Len() {
			ids.AppendFrom(&r.Examples, i)
		}
		return ctx.Err()
	})
	return ids, err
}

// at returns the row within a part that has id i of a column; found is false if none has.
func at(part, ids *ownergraph.IDs, i int) (row int, found bool) {
	return sort.Find(part.Len(), func(row int) int { return -part.Compare(row, ids, i) })
}

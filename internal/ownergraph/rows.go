package ownergraph

import (
	"encoding/binary"
	"fmt"
)

// Rows is a run of consecutive rows of a bounded graph: its kept examples in the order of their
// ids.
type Rows struct {
	First    int64    // number of the first row; rows are numbered from 0
	Examples IDs      // ascending
	Copies   []uint32 // by row: how often the example is kept, at least 1
	Ends     []uint32 // by row: where its owners end in Owners; they begin where the row before ends
	Owners   IDs      // each row's ascending and distinct
	Pools    []uint32 // in a table with pools: each row's pools, ascending, at least one
	PoolEnds []uint32 // by row: where its pools end in Pools; empty in a table without pools
}

// Len returns the number of rows.
func (r *Rows) Len() int { return r.Examples.Len() }

// OwnersOf returns the range in r.Owners of the owners of row i, counted from the first of r.
func (r *Rows) OwnersOf(i int) (start, end int) {
	if i > 0 {
		start = int(r.Ends[i-1])
	}
	return start, int(r.Ends[i])
}

// PoolsOf returns the pools of row i, or nil in a table without pools.
func (r *Rows) PoolsOf(i int) []uint32 {
	if len(r.PoolEnds) == 0 {
		return nil
	}
	start := uint32(0)
	if i > 0 {
		start = r.PoolEnds[i-1]
	}
	return r.Pools[start:r.PoolEnds[i]]
}

// AppendPools sets the pools of the next row, if there are any.
func (r *Rows) AppendPools(pools ...uint32) {
	if len(pools) > 0 {
		r.Pools = append(r.Pools, pools...)
		r.PoolEnds = append(r.PoolEnds, uint32(len(r.Pools)))
	}
}

// Reset empties r, keeps its memory, and sets the number of its first row and the types of its ids.
func (r *Rows) Reset(first int64, example, owner IDType) {
	r.empty(first)
	r.Examples.Reset(example)
	r.Owners.Reset(owner)
}

// empty removes all rows but the ids, and sets the number of the first row.
func (r *Rows) empty(first int64) {
	r.First, r.Copies, r.Ends, r.Pools, r.PoolEnds = first, r.Copies[:0], r.Ends[:0], r.Pools[:0], r.PoolEnds[:0]
}

// AppendFrom adds row i of o, which has ids of the same types.
func (r *Rows) AppendFrom(o *Rows, i int) {
	r.Examples.AppendFrom(&o.Examples, i)
	r.Copies = append(r.Copies, o.Copies[i])
	for j, end := o.OwnersOf(i); j < end; j++ {
		r.Owners.AppendFrom(&o.Owners, j)
	}
	r.Ends = append(r.Ends, uint32(r.Owners.Len()))
	r.AppendPools(o.PoolsOf(i)...)
}

// AppendBinary appends r to b, in the form that [Rows.UnmarshalBinary] reads: the number of the
// first row, the columns of ids, and then by row its copies and its number of owners; with pools,
// then by row the number of its pools and the differences of these. Columns that do not agree are
// an error.
func (r *Rows) AppendBinary(b []byte) ([]byte, error) {
	n := r.Len()
	if len(r.Copies) != n || len(r.Ends) != n || n > 0 && int(r.Ends[n-1]) != r.Owners.Len() ||
		len(r.PoolEnds) != 0 && len(r.PoolEnds) != n {
		return b, fmt.Errorf("columns of %d rows do not agree", n)
	}
	b = binary.AppendVarint(b, r.First)
	b = r.Owners.AppendBinary(r.Examples.AppendBinary(b))
	start := uint32(0)
	for i, end := range r.Ends {
		b = binary.AppendUvarint(b, uint64(r.Copies[i]))
		b = binary.AppendUvarint(b, uint64(end-start))
		start = end
	}
	for i := range r.PoolEnds {
		pools := r.PoolsOf(i)
		b = binary.AppendUvarint(b, uint64(len(pools)))
		last := uint32(0)
		for _, p := range pools {
			b = binary.AppendUvarint(b, uint64(p-last))
			last = p
		}
	}
	return b, nil
}

// RowRange returns the number of the first row in the output of [Rows.AppendBinary], and how many
// there are, without decoding the rest.
func RowRange(b []byte) (first int64, n int, err error) {
	first, k := binary.Varint(b)
	if k <= 0 || len(b) < k+2 {
		return 0, 0, ErrEncoding
	}
	count, l := binary.Uvarint(b[k+1:]) // behind the type of the ids
	if l <= 0 || count > uint64(len(b)) {
		return 0, 0, ErrEncoding
	}
	return first, int(count), nil
}

// UnmarshalBinary replaces r with the output of AppendBinary. It keeps no reference to b.
func (r *Rows) UnmarshalBinary(b []byte) error {
	first, k := binary.Varint(b)
	if k <= 0 {
		return ErrEncoding
	}
	r.empty(first)
	b, err := r.Examples.Decode(b[k:])
	if err == nil {
		b, err = r.Owners.Decode(b)
	}
	if err != nil {
		return err
	}
	end := uint64(0)
	for range r.Len() {
		copies, k := binary.Uvarint(b)
		if k <= 0 || copies == 0 || copies > 1<<31-1 {
			return ErrEncoding
		}
		owners, l := binary.Uvarint(b[k:])
		if l <= 0 || owners > uint64(r.Owners.Len())-end {
			return ErrEncoding
		}
		end += owners
		r.Copies, r.Ends = append(r.Copies, uint32(copies)), append(r.Ends, uint32(end))
		b = b[k+l:]
	}
	if end != uint64(r.Owners.Len()) {
		return ErrEncoding
	}
	return r.decodePools(b)
}

// decodePools reads the pools of the rows, if b is not at its end.
func (r *Rows) decodePools(b []byte) error {
	for range r.Len() {
		if len(b) == 0 && len(r.PoolEnds) == 0 {
			return nil
		}
		n, k := binary.Uvarint(b)
		if k <= 0 || n == 0 || n > MaxPools {
			return ErrEncoding
		}
		b = b[k:]
		pool := uint64(0)
		for i := range n {
			more, k := binary.Uvarint(b)
			if pool += more; k <= 0 || more > MaxPools || pool >= MaxPools || i > 0 && more == 0 {
				return ErrEncoding
			}
			b = b[k:]
			r.Pools = append(r.Pools, uint32(pool))
		}
		r.PoolEnds = append(r.PoolEnds, uint32(len(r.Pools)))
	}
	if len(b) > 0 {
		return ErrEncoding
	}
	return nil
}

// Rows returns the kept examples.
func (r *Bounded) Rows() *Rows {
	rows := new(Rows)
	rows.Reset(0, r.Graph.Examples.Type, r.Graph.Owners.Type)
	r.AppendRows(rows, 0, len(r.Copies))
	return rows
}

// AppendRows adds to rows, which must be of the graph's types, the next n kept examples from
// example e of the graph on, or as many as there are. It returns the example with which to go on.
func (r *Bounded) AppendRows(rows *Rows, e, n int) (next int) {
	g := r.Graph
	for ; e < len(r.Copies) && n > 0; e++ {
		if r.Copies[e] == 0 {
			continue
		}
		n--
		rows.Examples.AppendFrom(&g.Examples, e)
		rows.Copies = append(rows.Copies, r.Copies[e])
		for _, u := range g.OwnersOf.At(e) {
			rows.Owners.AppendFrom(&g.Owners, int(u))
		}
		rows.Ends = append(rows.Ends, uint32(rows.Owners.Len()))
		if r.Pools != nil {
			rows.AppendPools(r.Pools.Of.At(e)...)
		}
	}
	return e
}

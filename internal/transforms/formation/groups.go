package formation

import (
	"cmp"
	"encoding/binary"
	"slices"
)

// A chunk of groups is one byte of kind, then a record for each group, the rows that an owner
// brings to a step. The record has: the difference of the owner's first row from the first row of
// the group before (signed varint); the step, counted from the first of the shard; the number of
// rows; and the difference of each row from the previous one, where the first counts from the
// owner's first row (varints).

// groupPacker gathers groups into one chunk for each cell. flush reuses its buffers.
type groupPacker struct {
	eventPacker
}

// add adds the group of rows[i] for the ascending i of brought; first is the owner's first row. The
// group is in the cell of the first row that is brought, since a batch is in the order of these.
func (p *groupPacker) add(first int64, step int32, rows []int64, brought []int) (cell int32) {
	cell = p.cell(rows[brought[0]], step)
	p.addTo(cell, first, step)
	b := binary.AppendUvarint(p.buffers[cell], uint64(len(brought)))
	for _, i := range brought {
		b = binary.AppendUvarint(b, uint64(rows[i]-first))
		first = rows[i]
	}
	p.buffers[cell] = b
	return cell
}

// group holds the rows that an owner brings to a step: rows[start:start+count] of its groups.
type group struct {
	first, start int64 // the owner's first row; index of the group's first row
	count        int32
	step         int32 // counted from the first of the shard
}

// groups are the groups of a shard.
type groups[R int32 | int64] struct {
	steps int
	list  []group
	rows  []R
}

// add takes a chunk of groups.
func (g *groups[R]) add(b []byte) error {
	first := int64(0)
	b = b[1:]
	next := func() (x uint64) {
		x, k := binary.Uvarint(b)
		b = b[max(k, 0):]
		if k <= 0 {
			b = nil
		}
		return x
	}
	for len(b) > 0 {
		delta, k := binary.Varint(b)
		if k <= 0 {
			return errChunk
		}
		first += delta
		b = b[k:]
		step, count := next(), next()
		if first < 0 || step >= uint64(g.steps) || count < 1 || count > uint64(len(b)) {
			return errChunk
		}
		g.list = append(g.list, group{first, int64(len(g.rows)), int32(count), int32(step)})
		row := first
		for range count {
			row += int64(next())
			g.rows = append(g.rows, R(row))
		}
	}
	return nil
}

// batches returns the rows of the shard by step and owner, and where those of each owner end in a
// batch. The owners of a batch are in the order of the first rows that they bring. Batches that are too
// large are truncated. It is called once.
func (g *groups[R]) batches(first int, truncator *truncator) (l lists[R], ends lists[int]) {
	ends.starts = make([]int64, 1, g.steps+1)
	slices.SortFunc(g.list, func(x, y group) int {
		return cmp.Or(cmp.Compare(x.step, y.step), cmp.Compare(x.first, y.first))
	})
	l = lists[R]{starts: make([]int64, 1, g.steps+1), rows: make([]R, 0, len(g.rows))}
	var leads []R
	list := g.list
	for t := range g.steps {
		n := 0
		for n < len(list) && int(list[n].step) == t {
			n++
		}
		batch := list[:n]
		list = list[n:]
		if truncator != nil {
			leads = leads[:0]
			for _, x := range batch {
				leads = append(leads, R(x.first))
			}
			batch = ofOwners(batch, cut(truncator, first+t, leads))
		}
		slices.SortFunc(batch, func(x, y group) int { return cmp.Compare(g.rows[x.start], g.rows[y.start]) })
		for _, x := range batch {
			l.rows = append(l.rows, g.rows[x.start:x.start+int64(x.count)]...)
			ends.rows = append(ends.rows, len(l.rows)-int(l.starts[t]))
		}
		ends.starts = append(ends.starts, int64(len(ends.rows)))
		l.starts = append(l.starts, int64(len(l.rows)))
	}
	return l, ends
}

// ofOwners keeps, in place, the groups of the owners with the given first rows. Both ascend.
func ofOwners[R int32 | int64](batch []group, firsts []R) []group {
	kept := batch[:0]
	for _, x := range batch {
		if len(firsts) > 0 && R(x.first) == firsts[0] {
			kept, firsts = append(kept, x), firsts[1:]
		}
	}
	return kept
}

package manifest

import (
	"context"
	"errors"
	"math"

	"minsep/sampling"
)

// ownerGroups reads a shard's file of owners: the offsets in the shard's rows at which the rows of
// each owner begin, and the end.
type ownerGroups struct {
	npyFile       // without a file if examples take part
	most    int64 // largest number of rows of an owner
	next    int64 // offset of the next owner's rows
	ends    []int // ends of the owners' rows in a step, counted from its first row
}

var errGroups = errors.New(
	"the offsets of owners do not rise from 0 to the number of rows, with a new owner at the start of each step",
)

func (b *Batches) openGroups(ctx context.Context, shard int) (*ownerGroups, error) {
	if !b.OfOwners() {
		return &ownerGroups{}, nil
	}
	g := &ownerGroups{most: int64(b.Facts.ExamplesPerOwner)}
	var err error
	if g.npyFile, err = b.open(ctx, OwnersName(shard, b.Facts.Shards)); err != nil {
		return nil, err
	}
	var first [1]int64
	if err := g.Read(first[:]); err == nil && first[0] == 0 {
		return g, nil
	}
	return nil, errors.Join(errGroups, g.Close())
}

// Close closes the file, if there is one.
func (g *ownerGroups) Close() error {
	if g.NPYInts == nil {
		return nil
	}
	return g.npyFile.Close()
}

// batch reads the rows of a step into dst, up to offset end of the shard, and the ends of each
// owner's rows. Rows must ascend within an owner, and owners by their first rows; padding comes
// last. It stops at the first row out of order, so that memory does not grow with a false claim:
// see [Batches.batch].
func (g *ownerGroups) batch(all npyFile, dst []int64, end int64) ([]int64, error) {
	g.ends = g.ends[:0]
	first := g.next
	last := int64(-1) // first row of the previous owner
	for g.next < end {
		var next [1]int64
		if g.Len() == 0 {
			return dst, errGroups
		}
		if err := g.Read(next[:]); err != nil {
			return dst, err
		}
		n := next[0] - g.next
		if n < 1 || n > g.most || next[0] > end {
			return dst, errGroups
		}
		start := len(dst)
		for left := int(n); left > 0; {
			had := len(dst)
			dst = append(dst, make([]int64, min(left, chunkRows))...)
			if err := all.Read(dst[had:]); err != nil {
				return dst, err
			}
			left -= len(dst) - had
			if !ascends(dst[max(start, had-1):]) {
				return dst, errors.New("the rows of an owner do not ascend")
			}
		}
		switch row := dst[start]; {
		case row == sampling.PadRow:
			last = math.MaxInt64
		case row <= last:
			return dst, errors.New(
				"the owners of a batch are not in the order of their first rows, before padding",
			)
		default:
			last = row
		}
		g.next = next[0]
		g.ends = append(g.ends, int(g.next-first))
	}
	return dst, nil
}

// ascends reports whether rows ascend, up to the padding.
func ascends(rows []int64) bool {
	for i := 1; i < len(rows); i++ {
		if rows[i] != sampling.PadRow && rows[i] <= rows[i-1] ||
			rows[i-1] == sampling.PadRow && rows[i] != sampling.PadRow {
			return false
		}
	}
	return true
}

// finished checks that the file ends with the shard's rows.
func (g *ownerGroups) finished() error {
	if g.NPYInts != nil && g.Len() > 0 {
		return errGroups
	}
	return nil
}

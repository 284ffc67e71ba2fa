package materialize

import (
	"cmp"
	"slices"

	"minsep/sampling"
	"minsep/sampling/stream"
)

// orderer puts the entries of a step into an order that only the key gives: by a random word of
// each, word j of the address (row, step) for copy j of the row. Owners go by the words of their
// first rows, and the rows of each ascend.
type orderer struct {
	src    *stream.Source
	words  *stream.Stream
	groups []group
}

// group are entries that stay together: the rows of an owner, or one row.
type group struct {
	word       uint64
	start, end int // of its rows in the batch
}

func newOrderer(key stream.Key) *orderer {
	src := stream.NewSource(key)
	return &orderer{src: src, words: src.Stream(stream.Address{})}
}

// each calls f with the entries of a step in their order. Rows are rows of the batch; with ends
// they belong to owners, to owner i up to ends[i]. Padding is left out.
func (o *orderer) each(step int, rows []int64, ends []int, f func(e entry)) {
	o.groups = o.groups[:0]
	last := int64(sampling.PadRow)
	start := 0
	for number := 0; start < len(rows); number++ {
		end := start + 1
		if ends != nil {
			end = ends[number]
		}
		if first := rows[start]; first != sampling.PadRow {
			if first != last {
				o.words.Reset(o.src.IntAddress(first, uint32(step)))
			}
			last = first
			o.groups = append(o.groups, group{o.words.Uint64(), start, end})
		}
		start = end
	}
	slices.SortStableFunc(o.groups, func(a, b group) int { return cmp.Compare(a.word, b.word) })
	slot := int32(0)
	for owner, g := range o.groups {
		for _, row := range rows[g.start:g.end] {
			if row == sampling.PadRow {
				continue
			}
			f(entry{int32(step), slot, row, int32(owner)})
			slot++
		}
	}
}

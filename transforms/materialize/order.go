package materialize

import (
	"cmp"
	"slices"

	"minsep/sampling"
	"minsep/sampling/stream"
)

// orderer puts the entries of a step into an order that depends on the key only. It sorts them by
// random words: copy j of a row has word j of the address (row, step). An owner has the word of its
// first row, and its rows ascend.
type orderer struct {
	src    *stream.Source
	words  *stream.Stream
	groups []group
}

// group is a range of entries that stay together: the rows of an owner, or one row.
type group struct {
	word       uint64
	start, end int // of its rows in the batch
}

// newOrderer returns the orderer of a key, for one goroutine.
func newOrderer(key stream.Key) *orderer {
	src := stream.NewSource(key)
	return &orderer{src: src, words: src.Stream(stream.Address{})}
}

// each calls f with the entries of a step in their order. Rows are the rows of the batch. With ends
// they belong to owners: the rows of owner i end at ends[i]. Padding is left out.
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

package formation

import (
	"cmp"
	"fmt"
	"slices"

	"minsep/internal/ownergraph"
)

// nameIndex finds the ids of a shard's rows. Rows that lie close together, as most do, are found
// without a search.
type nameIndex struct {
	first  int64
	places []int32 // by row, counted from first: its place in ids, or -1
	rows   []int64 // ascending, by place in ids; nil with places
	ids    ownergraph.IDs
}

// spread is the largest number of rows, for each row that has an id, up to which an index by row is
// worth its memory: 4 bytes each.
const spread = 16

// newNameIndex makes the index of chunks of ids, whose owners are row numbers. A row may be in
// several chunks, with the same id.
func newNameIndex(chunks []ownergraph.Edges) *nameIndex {
	x := &nameIndex{}
	if len(chunks) == 0 {
		return x
	}
	// Chunks hold ascending rows, and seldom overlap: in the order of their first rows they need no
	// sort.
	slices.SortFunc(
		chunks,
		func(a, b ownergraph.Edges) int { return cmp.Compare(a.Owners.Int(0), b.Owners.Int(0)) },
	)
	x.ids.Reset(chunks[0].Examples.Type)
	ascending := true
	last := int64(-1)
	for c := range chunks {
		for i := range chunks[c].Len() {
			row := chunks[c].Owners.Int(i)
			ascending = ascending && row > last
			last = row
			x.rows = append(x.rows, row)
			x.ids.AppendFrom(&chunks[c].Examples, i)
		}
	}
	if !ascending {
		x.sort()
	}
	x.first = x.rows[0]
	if n := x.rows[len(x.rows)-1] - x.first + 1; n <= spread*int64(len(x.rows)) {
		x.places = slices.Repeat([]int32{-1}, int(n))
		for place, row := range x.rows {
			x.places[row-x.first] = int32(place)
		}
		x.rows = nil
	}
	return x
}

// decodeNames decodes a chunk of ids, whose owners are row numbers.
func decodeNames(chunk []byte, of ownergraph.IDType) (n ownergraph.Edges, err error) {
	switch rest, err := n.Decode(chunk[1:]); {
	case err != nil:
		return n, err
	case len(rest) > 0:
		return n, errChunk
	case n.Examples.Type != of:
		return n, fmt.Errorf("ids of the table are of type %v, the configuration says %v", n.Examples.Type, of)
	}
	return n, nil
}

// sort puts rows into ascending order, each once.
func (x *nameIndex) sort() {
	order := make([]int32, len(x.rows))
	for i := range order {
		order[i] = int32(i)
	}
	slices.SortFunc(order, func(a, b int32) int { return cmp.Compare(x.rows[a], x.rows[b]) })
	order = slices.CompactFunc(order, func(a, b int32) bool { return x.rows[a] == x.rows[b] })
	rows := make([]int64, len(order))
	var ids ownergraph.IDs
	ids.Reset(x.ids.Type)
	for i, place := range order {
		rows[i] = x.rows[place]
		ids.AppendFrom(&x.ids, int(place))
	}
	x.rows, x.ids = rows, ids
}

// appendPlaces appends the places in ids of rows that take part in the shard.
func (x *nameIndex) appendPlaces(places []int32, rows []int64) []int32 {
	for _, row := range rows {
		if x.places != nil {
			places = append(places, x.places[row-x.first])
			continue
		}
		place, _ := slices.BinarySearch(x.rows, row)
		places = append(places, int32(place))
	}
	return places
}

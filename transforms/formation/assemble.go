package formation

import (
	"cmp"
	"fmt"
	"slices"

	"minsep/sampling"
	"minsep/sampling/ownergraph"
)

// assembly turns the chunks of a shard into its batches. R is the type of row numbers in the files.
type assembly[R int32 | int64] struct {
	steps     int // of the shard
	first     int // its first step
	truncator *sampling.Truncator
	events    [2][][]byte // by kind
	ids       ownergraph.IDType
	names     []ownergraph.Edges
}

// add takes a chunk and keeps it: the caller must not change it.
func (a *assembly[R]) add(b []byte) error {
	switch {
	case len(b) == 0 || kind(b[0]) > named:
		return errChunk
	case kind(b[0]) == named:
		var n ownergraph.Edges
		if err := n.UnmarshalBinary(b[1:]); err != nil {
			return err
		}
		if n.Examples.Type != a.ids {
			return fmt.Errorf("formation: ids of the table are of type %v, the configuration says %v", n.Examples.Type, a.ids)
		}
		a.names = append(a.names, n)
	default:
		a.events[b[0]] = append(a.events[b[0]], b)
	}
	return nil
}

// lists are lists of rows, one a step: list t is rows[starts[t]:starts[t+1]].
type lists[R int32 | int64] struct {
	starts []int64
	rows   []R
}

func (l *lists[R]) at(t int) []R { return l.rows[l.starts[t]:l.starts[t+1]] }

// sorted spreads events over their steps and sorts the rows of each step. If each chunk has
// ascending rows and no two chunks overlap, as drawFn makes them, no sort is needed.
func (a *assembly[R]) sorted(chunks [][]byte) (*lists[R], error) {
	// The shuffle gives chunks in any order. A counting sort by step then keeps the order of rows.
	slices.SortFunc(chunks, func(x, y []byte) int { return cmp.Compare(firstRow(x), firstRow(y)) })
	l := &lists[R]{starts: make([]int64, a.steps+1)}
	for _, b := range chunks {
		if err := eachEvent(b, a.steps, func(_ int64, step int) { l.starts[step+1]++ }); err != nil {
			return nil, err
		}
	}
	for t := range a.steps {
		l.starts[t+1] += l.starts[t]
	}
	l.rows = make([]R, l.starts[a.steps])
	next := slices.Clone(l.starts[:a.steps])
	for _, b := range chunks {
		eachEvent(b, a.steps, func(row int64, step int) { // cannot fail: every event was read before
			l.rows[next[step]] = R(row)
			next[step]++
		})
	}
	for t := range a.steps {
		if !slices.IsSorted(l.at(t)) {
			slices.Sort(l.at(t))
		}
	}
	return l, nil
}

// batches returns the batches of the shard: for each step the rows that take part and are not
// blocked, ascending, cut to the maximum batch size. It uses up the events, so it is called once.
func (a *assembly[R]) batches() (*lists[R], error) {
	l, err := a.sorted(a.events[taken])
	if err != nil {
		return nil, err
	}
	a.events[taken] = nil
	without, err := a.sorted(a.events[blocked])
	if err != nil {
		return nil, err
	}
	// Batches shrink in place: a shard of large batches is most of a worker's memory.
	kept := l.rows[:0]
	start := int64(0)
	for t := range a.steps {
		batch := l.rows[start:l.starts[t+1]]
		start = l.starts[t+1]
		// Blocked rows go first: the maximum size is for the examples that take part.
		batch = remove(batch, without.at(t))
		if a.truncator != nil {
			batch = sampling.Cut(a.truncator, a.first+t, batch)
		}
		kept = append(kept, batch...)
		l.starts[t+1] = int64(len(kept))
	}
	l.rows = kept
	return l, nil
}

// remove deletes the rows of out from rows, in place. Both ascend.
func remove[R int32 | int64](rows, out []R) []R {
	if len(out) == 0 {
		return rows
	}
	kept := rows[:0]
	for _, r := range rows {
		for len(out) > 0 && out[0] < r {
			out = out[1:]
		}
		if len(out) == 0 || out[0] != r {
			kept = append(kept, r)
		}
	}
	return kept
}

// idsOf returns a function that appends the id of a row to ids. The row must take part in the
// shard.
func (a *assembly[R]) idsOf() func(row R, ids *ownergraph.IDs) {
	type place struct{ chunk, at int32 }
	places := make(map[R]place)
	for c := range a.names {
		for i := range a.names[c].Len() {
			places[R(a.names[c].Owners.Int(i))] = place{int32(c), int32(i)}
		}
	}
	return func(row R, ids *ownergraph.IDs) {
		p := places[row]
		ids.AppendFrom(&a.names[p.chunk].Examples, int(p.at))
	}
}

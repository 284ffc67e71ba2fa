package formation

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"minsep/internal/ownergraph"
	"minsep/internal/stream"
	"minsep/sampling"
)

// assembly turns the chunks of a shard into its batches. R is the type of row numbers in the files.
type assembly[R int32 | int64] struct {
	steps     int         // of the shard
	first     int         // its first step
	truncator *truncator  // nil unless batches are truncated
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
		if rest, err := n.Decode(b[1:]); err != nil {
			return err
		} else if len(rest) > 0 {
			return errChunk
		}
		if n.Examples.Type != a.ids {
			return fmt.Errorf("ids of the table are of type %v, the configuration says %v", n.Examples.Type, a.ids)
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
func (a *assembly[R]) sorted(chunks [][]byte) (lists[R], error) {
	// The shuffle gives chunks in any order. A counting sort by step then keeps the order of rows.
	slices.SortFunc(chunks, func(x, y []byte) int { return cmp.Compare(firstRow(x), firstRow(y)) })
	l := lists[R]{starts: make([]int64, a.steps+1)}
	for _, b := range chunks {
		if err := eachEvent(b, a.steps, func(_ int64, step int) { l.starts[step+1]++ }); err != nil {
			return l, err
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
func (a *assembly[R]) batches() (lists[R], error) {
	l, err := a.sorted(a.events[taken])
	if err != nil {
		return l, err
	}
	a.events[taken] = nil
	without, err := a.sorted(a.events[blocked])
	if err != nil {
		return l, err
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
			batch = cut(a.truncator, a.first+t, batch)
		}
		kept = append(kept, batch...)
		l.starts[t+1] = int64(len(kept))
	}
	l.rows = kept
	return l, nil
}

// truncator truncates batches under a key.
type truncator struct {
	sampling.Truncation
	*stepWords
}

func cut[R int32 | int64](t *truncator, step int, rows []R) []R {
	return sampling.Cut(t.Truncation, rows, func(row int64) sampling.Words { return t.at(row, step) })
}

// stepWords gives the words of rows at steps.
type stepWords struct {
	src   *stream.Source
	words *stream.Stream
}

func newStepWords(key stream.Key) *stepWords {
	src := stream.NewSource(key)
	return &stepWords{src, src.Stream(stream.Address{})}
}

// at gives the words of a row at a step, until it is called again.
func (w *stepWords) at(row int64, step int) sampling.Words {
	w.words.Reset(w.src.IntAddress(row, uint32(step)))
	return w.words
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

// batches are the batches of a shard of steps: batch t is rows[starts[t]:starts[t+1]], ascending, or
// by owner where owners take part.
type batches[R int32 | int64] struct {
	lists[R]
	first int        // step of batch 0
	ends  []int64    // in rows, of each owner's; nil unless owners take part
	names *nameIndex // nil if ids are row numbers, or were not carried
}

// assemble makes the batches of a shard from its chunks. With pad, batches by owner have the padding
// that the scheme asks for; other batches never have.
func assemble[R int32 | int64](
	ctx context.Context,
	c Config,
	shard int,
	chunks func(*[]byte) bool,
	pad bool,
) (b batches[R], err error) {
	shards := c.shards()
	b.first = int(shards.start[shard])
	a := &assembly[R]{first: b.first, steps: int(shards.start[shard+1]) - b.first, ids: c.IDs.Type}
	if t := c.Spec.Truncation; t != nil {
		key, err := c.key(ctx, truncatePurpose)
		if err != nil {
			return b, err
		}
		a.truncator = &truncator{*t, newStepWords(key)}
	}
	g := &groups[R]{steps: a.steps}
	for chunk := []byte(nil); chunks(&chunk); chunk = nil {
		if len(chunk) > 0 && kind(chunk[0]) == grouped && c.Spec.Owners != nil {
			err = g.add(chunk)
		} else {
			err = a.add(chunk)
		}
		if err != nil {
			return b, err
		}
	}
	if c.Spec.Owners != nil {
		b.lists, b.ends = g.batches(b.first, a.truncator, c.Spec.Owners.ExamplesPerOwner, pad)
	} else if b.lists, err = a.batches(); err != nil {
		return b, err
	}
	if c.needsNames() {
		b.names = newNameIndex(a.names)
	}
	return b, ctx.Err()
}

// Part is some of the entries of a batch. The next part reuses Rows and Places.
type Part struct {
	Step        int
	Part, Parts int // of the step, from 0
	Rows        []int64
	IDs         *ownergraph.IDs // of the shard, the same column for all of its parts; nil if ids are row numbers, or were not carried
	Places      []int32         // of each row's id in IDs
	Ends        []int           // in Rows, of each owner's; nil unless owners take part
}

// Assemble makes the batches of a shard, without padding, and calls use for parts of them, step after
// step: each of at most size rows, or of one owner. A step in which nobody takes part has one part
// without rows. It holds the shard in memory.
func Assemble(
	ctx context.Context,
	c Config,
	shard uint32,
	chunks func(*[]byte) bool,
	size int,
	use func(*Part) error,
) error {
	b, err := assemble[int64](ctx, c, int(shard), chunks, false)
	if err != nil {
		return err
	}
	ends := b.ends
	p := &Part{}
	if b.names != nil {
		p.IDs = &b.names.ids
	}
	for t := range len(b.starts) - 1 {
		start, end := b.starts[t], b.starts[t+1]
		var owners []int64
		for len(ends) > 0 && ends[0] <= end {
			owners, ends = append(owners, ends[0]), ends[1:]
		}
		cuts := cutParts(start, end, owners, size)
		for i, cut := range cuts {
			p.Step, p.Part, p.Parts, p.Rows, p.Ends = b.first+t, i, len(cuts), b.rows[start:cut], nil
			if b.names != nil {
				p.Places = b.names.appendPlaces(p.Places[:0], p.Rows)
			}
			for len(owners) > 0 && owners[0] <= cut {
				p.Ends, owners = append(p.Ends, int(owners[0]-start)), owners[1:]
			}
			if err := cmp.Or(use(p), ctx.Err()); err != nil {
				return err
			}
			start = cut
		}
	}
	return nil
}

// cutParts returns where the parts of rows start to end are cut: after at most size rows, and with
// owners after the last owner that fits, or after one that alone is larger.
func cutParts(start, end int64, owners []int64, size int) (cuts []int64) {
	for at := start; at < end || len(cuts) == 0; {
		cut := min(end, at+int64(size))
		if n := len(owners); n > 0 && cut < end {
			i, exact := slices.BinarySearch(owners, cut)
			if !exact && (i == 0 || owners[i-1] <= at) {
				cut = owners[i]
			} else if !exact {
				cut = owners[i-1]
			}
		}
		cuts = append(cuts, cut)
		at = cut
	}
	return cuts
}

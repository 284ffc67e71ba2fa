package formation

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"minsep/internal/manifest"
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
type lists[R int | int32 | int64] struct {
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
	first  int                                 // step of sizes[0]
	sizes  []size                              // of a cell, to the units of which batches are cut; nil for the maximum size
	excess func(step int, priorities []uint64) // takes the place of cutting; nil to cut
}

// truncator returns nil if batches are not truncated.
func (c Config) truncator(ctx context.Context) (*truncator, error) {
	if c.Spec.Truncation == nil {
		return nil, nil
	}
	key, err := c.key(ctx, truncatePurpose)
	return &truncator{Truncation: *c.Spec.Truncation, stepWords: newStepWords(key)}, err
}

func cut[R int32 | int64](t *truncator, step int, rows []R) []R {
	words := func(row int64) sampling.Words { return t.at(row, step) }
	if t.excess != nil {
		t.excess(step, sampling.Priorities(rows, words))
		return rows
	}
	to := t.Truncation
	if t.sizes != nil {
		to.MaxBatchSize = t.sizes[step-t.first].Units
		if to.MaxBatchSize == 0 { // which is none of its own
			return rows[:0]
		}
	}
	return sampling.Cut(to, rows, words)
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

// batches are the batches of a cell: batch t is rows[starts[t]:starts[t+1]], ascending, or by owner where
// owners take part.
type batches[R int32 | int64] struct {
	lists[R]
	first int        // step of batch 0
	ends  lists[int] // in a batch, of each owner's rows; without lists unless owners take part
	names *nameIndex // nil if ids are row numbers, or were not carried
}

// assembled are batches of rows of either type.
type assembled interface {
	sizes() []size
	each(c Config, block int, among [][]size, per int, use func(*Part) error) error
}

// assemble makes the batches of a cell from its chunks. Rows of 4 bytes halve its memory.
func (c Config) assemble(ctx context.Context, cell uint32, chunks side, t *truncator) (assembled, error) {
	if manifest.RowType(c.Examples) == manifest.DInt32 {
		return assemble[int32](ctx, c, cell, chunks, t)
	}
	return assemble[int64](ctx, c, cell, chunks, t)
}

func assemble[R int32 | int64](
	ctx context.Context,
	c Config,
	cell uint32,
	chunks side,
	t *truncator,
) (b *batches[R], err error) {
	start := c.shards().start[int(cell)/c.Blocks:]
	b = &batches[R]{first: int(start[0])}
	a := &assembly[R]{first: b.first, steps: int(start[1]) - b.first, truncator: t, ids: c.IDs.Type}
	g := &groups[R]{steps: a.steps}
	for chunk := []byte(nil); chunks(&chunk); chunk = nil {
		switch {
		case len(chunk) > 0 && kind(chunk[0]) == grouped && c.Spec.Owners != nil:
			err = g.add(chunk)
		case len(chunk) > 0 && kind(chunk[0]) == named && !c.needsNames():
		default:
			err = a.add(chunk)
		}
		if err != nil {
			return b, err
		}
	}
	if c.Spec.Owners != nil {
		b.lists, b.ends = g.batches(b.first, t)
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
	Before      int // entries of the step in the blocks before this one
	Size        int // of the step, in entries
	Rows        []int64
	IDs         *ownergraph.IDs // of the cell, the same column for all of its parts; nil if ids are row numbers, or were not carried
	Places      []int32         // of each row's id in IDs
	Ends        []int           // in Rows, of each owner's; nil unless owners take part
}

// Assemble makes the batches of a cell, without padding, and calls use for parts of them, step after
// step: each of at most per rows, or of one owner. A step in which nobody takes part has one part
// without rows. It holds the cell in memory. sizes are [Drawn.Sizes].
func Assemble(
	ctx context.Context,
	c Config,
	cell uint32,
	chunks, sizes side,
	per int,
	use func(*Part) error,
) error {
	t, among, err := c.among(ctx, cell, sizes)
	if err != nil {
		return err
	}
	b, err := c.assemble(ctx, cell, chunks, t)
	if err != nil {
		return err
	}
	if among == nil {
		among = [][]size{b.sizes()}
	}
	return b.each(c, int(cell)%c.Blocks, among, per, func(p *Part) error { return cmp.Or(use(p), ctx.Err()) })
}

// each calls use for the parts of a cell among the others of its shard.
func (b *batches[R]) each(c Config, block int, among [][]size, per int, use func(*Part) error) error {
	if o := c.Spec.Owners; o != nil {
		per = max(1, per/o.ExamplesPerOwner) // owners of a part
	}
	p := &Part{}
	if b.names != nil {
		p.IDs = &b.names.ids
	}
	for t, own := range among[block] {
		rows := b.at(t)
		if own.Rows != len(rows) {
			return errSizes
		}
		p.Step, p.Parts, p.Size = b.first+t, 0, 0
		for i, of := range among {
			if i == block {
				p.Part, p.Before = p.Parts, p.Size
			}
			p.Parts += (of[t].Units + per - 1) / per
			p.Size += of[t].Rows
		}
		nobody := p.Parts == 0 && block == 0
		p.Parts = max(1, p.Parts)
		for done := 0; done < own.Units || nobody; done += per {
			n := min(per, own.Units-done)
			if b.ends.starts != nil {
				p.Ends = nil
				start := len(b.at(t)) - len(rows)
				for _, end := range b.ends.at(t)[done : done+n] {
					p.Ends, n = append(p.Ends, end-start), end-start
				}
			}
			p.Rows = p.Rows[:0]
			for _, row := range rows[:n] {
				p.Rows = append(p.Rows, int64(row))
			}
			if b.names != nil {
				p.Places = b.names.appendPlaces(p.Places[:0], p.Rows)
			}
			if err := use(p); err != nil {
				return err
			}
			p.Part++
			rows, nobody = rows[n:], false
		}
	}
	return nil
}

package formation

import (
	"cmp"
	"context"
	"encoding/binary"
	"slices"

	"minsep/internal/ownergraph"
	"minsep/internal/stream"
	"minsep/sampling"
)

// batches are the batches of a cell: that of step first+t is units[starts[t]:starts[t+1]]. A unit is a
// row or, if owners take part, the place in brought of what an owner brings to the step: the owner's
// first row, the number of rows that come, and these rows, which ascend. Units are in the order of the
// first rows that come.
type batches struct {
	first   int // step of batch 0
	starts  []int64
	units   []int64
	brought []int64    // nil unless owners take part
	names   *nameIndex // nil if ids are row numbers, or were not carried
}

func (b *batches) at(t int) []int64 { return b.units[b.starts[t]:b.starts[t+1]] }

// assemble makes the batches of a cell from its chunks: for each step the rows that take part and are
// not blocked, cut to the maximum batch size.
func (c Config) assemble(ctx context.Context, cell uint32, chunks side, t *truncator) (*batches, error) {
	var events [2][][]byte // by kind
	var names []ownergraph.Edges
	for chunk := []byte(nil); chunks(&chunk); chunk = nil { // the next one must not be read into a kept one
		switch {
		case len(chunk) == 0 || kind(chunk[0]) > named:
			return nil, errChunk
		case kind(chunk[0]) < named:
			events[chunk[0]] = append(events[chunk[0]], chunk)
		case c.needsNames():
			n, err := decodeNames(chunk, c.IDs.Type)
			if err != nil {
				return nil, err
			}
			names = append(names, n)
		}
	}
	start := c.shards().start[int(cell)/c.Blocks:]
	first, steps := int(start[0]), int(start[1]-start[0])
	b, err := newBatches(events[taken], steps, c.Spec.Owners != nil)
	if err != nil {
		return nil, err
	}
	b.first, events[taken] = first, nil
	without, err := newBatches(events[blocked], steps, false)
	if err != nil {
		return nil, err
	}
	// Batches shrink in place: a shard of large batches is most of a worker's memory.
	kept, from := b.units[:0], int64(0)
	for step := range steps {
		batch := b.units[from:b.starts[step+1]]
		from = b.starts[step+1]
		// Blocked rows go first: the maximum size is for the examples that take part.
		kept = append(kept, t.cut(b, step, remove(batch, without.at(step)))...)
		b.starts[step+1] = int64(len(kept))
	}
	b.units = kept
	if c.needsNames() {
		b.names = newNameIndex(names)
	}
	return b, ctx.Err()
}

// newBatches spreads the events of chunks over steps and sorts those of each step.
func newBatches(chunks [][]byte, steps int, owners bool) (*batches, error) {
	// The shuffle gives chunks in any order. If each has ascending rows and no two overlap, as drawFn
	// makes them, a counting sort by step keeps the order of rows.
	slices.SortFunc(chunks, func(x, y []byte) int { return cmp.Compare(firstRow(x), firstRow(y)) })
	b := &batches{starts: make([]int64, steps+1)}
	if owners {
		b.brought = []int64{}
	}
	each := func(f func(unit int64, step int)) error {
		b.brought = b.brought[:0]
		for _, chunk := range chunks {
			if err := b.eachEvent(chunk, f); err != nil {
				return err
			}
		}
		return nil
	}
	if err := each(func(_ int64, step int) { b.starts[step+1]++ }); err != nil {
		return nil, err
	}
	for t := range steps {
		b.starts[t+1] += b.starts[t]
	}
	b.units = make([]int64, b.starts[steps])
	next := slices.Clone(b.starts)
	err := each(func(unit int64, step int) {
		b.units[next[step]] = unit
		next[step]++
	})
	for t := range steps {
		units := b.at(t)
		switch {
		case owners:
			slices.SortFunc(units, func(x, y int64) int { return cmp.Compare(b.brought[x+2], b.brought[y+2]) })
		case !slices.IsSorted(units):
			slices.Sort(units)
		}
	}
	return b, err
}

// eachEvent calls f for the events of a chunk. It refuses steps outside the shard.
func (b *batches) eachEvent(chunk []byte, f func(unit int64, step int)) error {
	row, more := int64(0), []int64(nil)
	for rest := chunk[1:]; len(rest) > 0; {
		delta, k := binary.Varint(rest)
		if k <= 0 {
			return errChunk
		}
		step, l := binary.Uvarint(rest[k:])
		row += delta
		if l <= 0 || step >= uint64(len(b.starts)-1) || row < 0 {
			return errChunk
		}
		rest = rest[k+l:]
		unit := row
		if b.brought != nil {
			var err error
			if more, rest, err = DecodeInts(more[:0], rest); err != nil || len(more) == 0 {
				return errChunk
			}
			unit = int64(len(b.brought))
			b.brought = append(b.brought, row, int64(len(more)))
			for _, after := range more {
				b.brought = append(b.brought, row+after)
			}
		}
		f(unit, int(step))
	}
	return nil
}

// firstRow returns the row of a chunk's first event.
func firstRow(chunk []byte) int64 {
	row, _ := binary.Varint(chunk[1:])
	return row
}

// ofOwners returns the rows of units, and where those of each owner end.
func (b *batches) ofOwners(units []int64) (rows []int64, ends []int) {
	for _, u := range units {
		rows = append(rows, b.brought[u+2:u+2+b.brought[u+1]]...)
		ends = append(ends, len(rows))
	}
	return rows, ends
}

// truncator truncates batches under a key.
type truncator struct {
	sampling.Truncation
	*stepWords
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

// cut truncates units, of a step of the shard of b, in place.
func (t *truncator) cut(b *batches, step int, units []int64) []int64 {
	if t == nil {
		return units
	}
	words := func(unit int64) sampling.Words {
		if b.brought != nil {
			unit = b.brought[unit]
		}
		return t.at(unit, b.first+step)
	}
	if t.excess != nil {
		t.excess(step, sampling.Priorities(units, words))
		return units
	}
	to := t.Truncation
	if t.sizes != nil {
		to.MaxBatchSize = t.sizes[step].Units
		if to.MaxBatchSize == 0 { // which is none of its own
			return units[:0]
		}
	}
	return sampling.Cut(to, units, words)
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
func remove(rows, out []int64) []int64 {
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

// Part is some of the entries of a batch. It must not be changed, and Places not kept.
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
func (b *batches) each(c Config, block int, among [][]size, per int, use func(*Part) error) error {
	if o := c.Spec.Owners; o != nil {
		per = max(1, per/o.ExamplesPerOwner) // owners of a part
	}
	p := &Part{}
	if b.names != nil {
		p.IDs = &b.names.ids
	}
	for t, own := range among[block] {
		if own != b.size(t) {
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
		for units := b.at(t); len(units) > 0 || nobody; nobody = false {
			n := min(per, len(units))
			p.Rows, p.Ends = units[:n], nil
			if b.brought != nil {
				p.Rows, p.Ends = b.ofOwners(units[:n])
			}
			if b.names != nil {
				p.Places = b.names.appendPlaces(p.Places[:0], p.Rows)
			}
			if err := use(p); err != nil {
				return err
			}
			p.Part++
			units = units[n:]
		}
	}
	return nil
}

package formation

import (
	"context"
	"encoding/binary"
	"fmt"

	"minsep/internal/ownergraph"
	"minsep/internal/packed"
	"minsep/internal/stream"
	"minsep/sampling"
)

// Owners that take part (F4.9): drawTableFn brings the rows of each owner together, drawOwnersFn draws
// the owner's participations and its examples, and a shard is assembled by owner.

// own packs the decoded rows by owner, with their ids if they are needed. The owners draw.
func (d *drawer) own() error {
	if got, want := d.rows.Examples.Type, d.config.IDs.Type; d.names != nil && got != want {
		return fmt.Errorf("ids of the table are of type %v, the configuration says %v", got, want)
	}
	for i := range d.rows.Len() {
		// Either of two owners could bring an example: without one of them, it would still take
		// part.
		row := d.rows.First + int64(i)
		start, end := d.rows.OwnersOf(i)
		if end-start != 1 || d.rows.Copies[i] != 1 {
			return fmt.Errorf(
				"row %d of the table has %d owners and %d copies: where owners take part, each example must have one owner and one copy",
				row,
				end-start,
				d.rows.Copies[i],
			)
		}
		d.rest = d.rest[:0]
		if d.names != nil {
			d.rest = appendID(d.rest, &d.rows.Examples, i)
		}
		d.owners.add(d.rows.Owners.Address(d.owners.src, start, 0), row, d.rest)
	}
	return nil
}

// appendID appends id i of a column to a record, as its last field.
func appendID(b []byte, ids *ownergraph.IDs, i int) []byte {
	if ids.Type == ownergraph.Int64 {
		return binary.BigEndian.AppendUint64(b, uint64(ids.Int(i)))
	}
	return append(b, ids.Bytes(i)...)
}

// decodeID appends to a column the id that appendID wrote.
func decodeID(ids *ownergraph.IDs, b []byte) error {
	switch {
	case ids.Type != ownergraph.Int64:
		ids.AppendBytes(b)
	case len(b) != 8:
		return errChunk
	default:
		ids.AppendInt(int64(binary.BigEndian.Uint64(b)))
	}
	return nil
}

// drawOwnersFn draws the participations of the owners of a bucket, and the examples that they
// bring.
type drawOwnersFn struct{}

func (*drawOwnersFn) ProcessElement(
	ctx context.Context,
	_ uint32,
	records func(*[]byte) bool,
	resolved side,
	emit emitChunk,
) error {
	r, err := ReadResolved(resolved)
	if err != nil {
		return err
	}
	c := r.Config
	sample, err := c.key(ctx, samplePurpose)
	if err != nil {
		return err
	}
	bring, err := c.key(ctx, bringPurpose)
	if err != nil {
		return err
	}
	d := &ownerDrawer{
		process: c.Spec.Process(),
		words:   stream.NewSource(sample).Stream(stream.Address{}),
		unit:    *c.Spec.Owners,
		subsets: newStepWords(bring),
		out:     newEventPacker(c.shards(), taken),
	}
	if c.needsNames() {
		d.names = newNamePacker(d.out.shards)
		d.ids.Reset(c.IDs.Type)
	}
	err = packed.Sort(c.TempDir, records, func(bucket *packed.Sorter) error { return d.drawAll(bucket, emit) })
	if err != nil {
		return err
	}
	examplesSampled.Add(ctx, d.examples)
	return ctx.Err()
}

// ownerDrawer draws for one owner after the other.
type ownerDrawer struct {
	process sampling.Process
	words   *stream.Stream
	unit    sampling.OwnerSampling
	subsets *stepWords
	out     *eventPacker
	names   *namePacker // nil unless the long form needs ids

	owner    stream.Address
	rows     []int64 // of the owner, ascending
	ids      ownergraph.IDs
	steps    []int32
	brought  []int     // indexes in rows
	more     []int64   // what rows that are brought have more than the first of the owner
	taken    [][]int32 // by row of the owner, with names only: the cells for which it was drawn
	held     int       // rows of events in out
	examples int
}

// drawAll goes through the owners of a bucket and emits chunks of groups.
func (d *ownerDrawer) drawAll(bucket *packed.Sorter, emit emitChunk) error {
	err := packed.Groups(bucket.Each, packed.FixedKey(len(d.owner)), func(record []byte, n int, _ bool) error {
		if len(record) < n+8 {
			return errChunk
		}
		d.owner = stream.Address(record[:n])
		d.rows = append(d.rows, int64(binary.BigEndian.Uint64(record[n:])))
		if d.names != nil {
			return decodeID(&d.ids, record[n+8:])
		}
		return nil
	}, func() error { d.draw(emit); return nil })
	d.flush(emit)
	return err
}

// draw draws for the owner with the gathered rows, then forgets it.
func (d *ownerDrawer) draw(emit emitChunk) {
	// Rows ascend, since records are sorted. The first one stands for the owner where a scheme asks
	// for a row: it is the same for any number of buckets.
	first := d.rows[0]
	d.words.Reset(d.owner)
	d.steps = d.process.Draw(d.steps[:0], d.words, first)
	for _, step := range d.steps {
		d.brought = d.unit.Draw(d.brought[:0], d.subsets.at(first, int(step)), len(d.rows))
		d.more = d.more[:0]
		for _, i := range d.brought {
			d.more = append(d.more, d.rows[i]-first)
		}
		// A batch is in the order of the first rows that are brought.
		cell := d.out.cell(d.rows[d.brought[0]], step)
		d.out.addTo(cell, first, step)
		d.out.buffers[cell] = AppendInts(d.out.buffers[cell], d.more)
		d.held += len(d.brought)
		if d.names != nil {
			d.take(cell)
		}
		if d.held >= groupsHeld {
			d.flush(emit)
		}
	}
	for i, cells := range d.taken {
		d.names.add(&d.ids, i, d.rows[i], cells)
	}
	d.examples += len(d.rows)
	d.rows, d.taken = d.rows[:0], d.taken[:0]
	d.ids.Reset(d.ids.Type)
}

// take records the cell for the rows that the owner brings to it: their ids are needed there.
func (d *ownerDrawer) take(cell int32) {
	for len(d.taken) < len(d.rows) {
		d.taken = append(d.taken, nil)
	}
	for _, i := range d.brought {
		d.taken[i] = append(d.taken[i], cell)
	}
}

// groupsHeld is the number of rows in groups after which chunks are emitted.
const groupsHeld = 1 << 16

func (d *ownerDrawer) flush(emit emitChunk) {
	emitAll(d.out.flush(nil), emit)
	if d.names != nil {
		emitAll(d.names.flush(nil), emit)
	}
	d.held = 0
}

package formation

import (
	"encoding/binary"
	"fmt"

	"minsep/internal/ownergraph"
	"minsep/internal/packed"
	"minsep/internal/stream"
	"minsep/sampling"
)

// job is a part of the examples: a range of numbered ones, or encoded ownergraph.Rows.
type job struct {
	first, count int64
	rows         [][]byte
}

// output holds the draws of a job.
type output struct {
	events   []chunk // by cell
	owners   []chunk // by bucket of owners
	examples int
}

// drawer draws the participations, or the coins, of one job at a time, or packs its rows by owner.
type drawer struct {
	src     *stream.Source
	words   *stream.Stream // of src
	process sampling.Process
	events  *eventPacker
	names   *namePacker  // nil unless the long form needs ids
	owners  *ownerPacker // nil unless the scheme looks at owners
	config  *Config
	rows    ownergraph.Rows
	steps   []int32 // in which a copy of an example takes part
	cells   []int32 // of its participations
	rest    []byte  // of a record of an owner
}

// participate sets the steps of the copy of an example at an address.
func (d *drawer) participate(at stream.Address, row int64) {
	d.words.Reset(at)
	d.steps = d.process.Draw(d.steps[:0], d.words, row)
}

// draw draws for the rows of a job: a range of numbers, or encoded rows of a table. It flushes all
// packers at the end, so that the output of a job does not depend on the goroutine that drew it.
func (d *drawer) draw(j job) (out output, err error) {
	for i := range j.count {
		row := j.first + i
		d.participate(d.src.IntAddress(row, 0), row)
		d.pack(row)
	}
	out.examples = int(j.count)
	for _, b := range j.rows {
		if err := d.drawRows(b); err != nil {
			return out, err
		}
		if d.config.Spec.Owners == nil { // owners draw later
			out.examples += d.rows.Len()
		}
	}
	out.events = d.events.flush(out.events)
	if d.names != nil {
		out.events = d.names.flush(out.events)
	}
	if d.owners != nil {
		out.owners = d.owners.flush()
	}
	return out, nil
}

// inTable refuses row numbers outside a table of the given number of examples.
func inTable(rows *ownergraph.Rows, examples int64) error {
	if rows.First < 0 || rows.First > examples-int64(rows.Len()) {
		return fmt.Errorf(
			"rows %d to %d of the table: the configuration says %d rows",
			rows.First,
			rows.First+int64(rows.Len())-1,
			examples,
		)
	}
	return nil
}

// inPools refuses rows without pools, and rows in a pool that does not exist.
func inPools(rows *ownergraph.Rows, pools int) error {
	if len(rows.PoolEnds) != rows.Len() {
		return fmt.Errorf("rows of the table from %d on are in no pools, as rotation needs them", rows.First)
	}
	for i := range rows.Len() {
		if in := rows.PoolsOf(i); len(in) == 0 || int(in[len(in)-1]) >= pools {
			return fmt.Errorf(
				"row %d of the table is in pools %d, the configuration says %d pools",
				rows.First+int64(i),
				in,
				pools,
			)
		}
	}
	return nil
}

// drawRows draws for encoded rows of a table. Random numbers are addressed by the example's id and
// the number of its copy, and not by its row.
func (d *drawer) drawRows(b []byte) error {
	if err := d.rows.UnmarshalBinary(b); err != nil {
		return err
	}
	if err := inTable(&d.rows, d.config.Examples); err != nil {
		return err
	}
	if d.config.Spec.Owners != nil {
		return d.own()
	}
	rotation := d.config.Spec.Rotation
	if rotation != nil {
		if err := inPools(&d.rows, d.config.Pools); err != nil {
			return err
		}
	}
	for i := range d.rows.Len() {
		row := d.rows.First + int64(i)
		for c := range d.rows.Copies[i] {
			// Copies of an example take part by themselves, and may meet in a batch.
			d.participate(d.rows.Examples.Address(d.src, i, c), row)
			if rotation != nil {
				d.steps = rotation.In(d.steps, d.rows.PoolsOf(i), d.config.Pools)
			}
			if len(d.steps) == 0 {
				continue
			}
			d.pack(row)
			if d.names != nil {
				d.names.add(&d.rows.Examples, i, row, d.cells)
			}
			if d.owners != nil {
				d.addCoins(i, row)
			}
		}
	}
	return nil
}

// pack packs d.steps as events, and sets d.cells. Coins before the first step are left out: they only
// block later ones.
func (d *drawer) pack(row int64) {
	d.cells = d.cells[:0]
	for _, t := range d.steps {
		if t >= 0 {
			cell := d.events.cell(row, t)
			d.events.addTo(cell, row, t)
			d.cells = append(d.cells, cell)
		}
	}
}

// addCoins adds d.steps, the coins of row i, to each of its owners. An example without owners is its own
// owner.
func (d *drawer) addCoins(i int, row int64) {
	d.rest = d.rest[:0]
	last := int32(1 - d.config.Spec.MultiOwner.MinSep)
	for _, t := range d.steps {
		d.rest = binary.AppendUvarint(d.rest, uint64(t-last))
		last = t
	}
	start, end := d.rows.OwnersOf(i)
	for j := start; j < end; j++ {
		d.owners.add(d.rows.Owners.Address(d.owners.src, j, 0), row, d.rest)
	}
	if start == end {
		d.owners.add(d.rows.Examples.Address(d.owners.src, i, 0), row, d.rest)
	}
}

// ownerPacker gathers records of each owner's examples. A record is the owner's address, the row (8
// bytes, big endian) and more: of coins, the differences of ascending steps as varints, the first
// counted from 1-b; where owners take part, the example's id if it is needed. The address is a keyed
// hash of 128 bits, so two of N owners have the same one with probability below N²/2^129.
type ownerPacker struct {
	src    *stream.Source
	packer *packed.Packer
	number int // of buckets
	record []byte
	chunks []chunk
}

func newOwnerPacker(key stream.Key, buckets int) *ownerPacker {
	return &ownerPacker{src: stream.NewSource(key), packer: packed.NewPacker(buckets), number: buckets}
}

func (p *ownerPacker) emit(bucket uint32, b []byte) { p.chunks = append(p.chunks, chunk{bucket, b}) }

func (p *ownerPacker) add(owner stream.Address, row int64, rest []byte) {
	p.record = binary.BigEndian.AppendUint64(append(p.record[:0], owner[:]...), uint64(row))
	p.record = append(p.record, rest...)
	p.packer.Add(packed.Bucket(owner.Uint64(), p.number), p.record, p.emit)
}

func (p *ownerPacker) flush() []chunk {
	p.packer.Flush(p.emit)
	out := p.chunks
	p.chunks = nil
	return out
}

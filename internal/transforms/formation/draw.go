package formation

import (
	"encoding/binary"
	"fmt"

	"minsep/internal/ownergraph"
	"minsep/internal/packed"
	"minsep/internal/stream"
	"minsep/sampling"
)

// drawer draws the participations, or the coins, of one job at a time.
type drawer struct {
	src     *stream.Source
	sampler sampling.Sampler
	events  *eventPacker
	names   *namePacker // nil unless the long form needs ids
	coins   *coinPacker // nil unless the scheme looks at owners
	rows    ownergraph.Rows
	steps   []int32

	examples int64              // rows of the table
	rotation *sampling.Rotation // nil for other schemes
	pools    int                // of the table, for rotation
}

// draw draws for the rows of a job: a range of numbers, or encoded rows of a table. It flushes all
// packers at the end, so that the output of a job does not depend on the goroutine that drew it.
func (d *drawer) draw(j job) output {
	var out output
	for i := range j.count {
		row := j.first + i
		d.steps = d.sampler.Append(d.steps[:0], d.src.IntAddress(row, 0), row)
		d.pack(row)
	}
	out.examples = int(j.count)
	for _, b := range j.rows {
		if out.err = d.drawRows(b); out.err != nil {
			return out
		}
		out.examples += d.rows.Len()
	}
	out.events = d.events.flush(out.events)
	if d.names != nil {
		out.events = d.names.flush(out.events)
	}
	if d.coins != nil {
		out.coins = d.coins.flush()
	}
	return out
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
	if err := inTable(&d.rows, d.examples); err != nil {
		return err
	}
	if d.rotation != nil {
		if err := inPools(&d.rows, d.pools); err != nil {
			return err
		}
	}
	for i := range d.rows.Len() {
		row := d.rows.First + int64(i)
		for c := range d.rows.Copies[i] {
			// Copies of an example take part by themselves, and may meet in a batch.
			d.steps = d.sampler.Append(d.steps[:0], d.rows.Examples.Address(d.src, i, c), row)
			if d.rotation != nil {
				d.steps = d.rotation.In(d.steps, d.rows.PoolsOf(i), d.pools)
			}
			if len(d.steps) == 0 {
				continue
			}
			d.pack(row)
			if d.names != nil {
				d.names.add(&d.rows.Examples, i, row, d.steps)
			}
			if d.coins != nil {
				d.coins.addOwners(&d.rows, i, row, d.steps)
			}
		}
	}
	return nil
}

// pack packs d.steps as events. Coins before the first step are left out: they only block later
// ones.
func (d *drawer) pack(row int64) {
	for _, t := range d.steps {
		if t >= 0 {
			d.events.add(row, t)
		}
	}
}

// coinPacker gathers the coins of each owner's examples. A record is the owner's address, the row
// (8 bytes, big endian) and the coins: differences of ascending steps as varints, the first counted
// from 1-b. The address is a keyed hash of 128 bits, so two of N owners have the same one with
// probability below N²/2^129.
type coinPacker struct {
	src    *stream.Source
	packer *packed.Packer
	number int // of buckets
	minSep int
	record []byte
	chunks []chunk
}

func newCoinPacker(key stream.Key, buckets, minSep int) *coinPacker {
	return &coinPacker{
		src:    stream.NewSource(key),
		packer: packed.NewPacker(buckets),
		number: buckets,
		minSep: minSep,
	}
}

func (p *coinPacker) emit(bucket uint32, b []byte) { p.chunks = append(p.chunks, chunk{bucket, b}) }

func (p *coinPacker) add(owner stream.Address, row int64, coins []int32) {
	b := append(p.record[:0], owner[:]...)
	b = binary.BigEndian.AppendUint64(b, uint64(row))
	last := int32(1 - p.minSep)
	for _, t := range coins {
		b = binary.AppendUvarint(b, uint64(t-last))
		last = t
	}
	p.record = b
	p.packer.Add(packed.Bucket(owner.Uint64(), p.number), b, p.emit)
}

// addOwners adds the coins of row i to each of its owners. An example without owners is its own
// owner.
func (p *coinPacker) addOwners(rows *ownergraph.Rows, i int, row int64, coins []int32) {
	start, end := rows.OwnersOf(i)
	for j := start; j < end; j++ {
		p.add(rows.Owners.Address(p.src, j, 0), row, coins)
	}
	if start == end {
		p.add(rows.Examples.Address(p.src, i, 0), row, coins)
	}
}

func (p *coinPacker) flush() []chunk {
	p.packer.Flush(p.emit)
	out := p.chunks
	p.chunks = nil
	return out
}

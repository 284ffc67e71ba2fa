package formation

import (
	"encoding/binary"
	"slices"

	"minsep/sampling/stream"
	"minsep/transforms/internal/packed"
)

// event is a coin of a row.
type event struct {
	row  int64
	step int32
}

// excluder finds the coins of one owner's examples that Algorithm 3 blocks: those with a coin of the owner in
// the b-1 steps before.
type excluder struct {
	minSep int
	events []event
	union  []int32
	out    *eventPacker
}

// owner packs the blocked ones of e.events and forgets all of them.
func (e *excluder) owner() {
	e.union = e.union[:0]
	for _, v := range e.events {
		e.union = append(e.union, v.step)
	}
	slices.Sort(e.union)
	e.union = slices.Compact(e.union)
	for _, v := range e.events {
		at, _ := slices.BinarySearch(e.union, v.step)
		if v.step >= 0 && at > 0 && int(v.step)-int(e.union[at-1]) < e.minSep {
			e.out.add(v.row, v.step)
		}
	}
	e.events = e.events[:0]
}

// add decodes a record of a coinPacker.
func (e *excluder) add(record []byte) error {
	if len(record) < len(stream.Address{})+8 {
		return errChunk
	}
	row := int64(binary.BigEndian.Uint64(record[len(stream.Address{}):]))
	step := int64(1 - e.minSep)
	for b := record[len(stream.Address{})+8:]; len(b) > 0; {
		delta, k := binary.Uvarint(b)
		step += int64(delta)
		if k <= 0 || step >= int64(e.out.steps) {
			return errChunk
		}
		e.events = append(e.events, event{row, int32(step)})
		b = b[k:]
	}
	return nil
}

// exclude goes through the owners of a bucket and appends chunks of blocked events to dst.
func (e *excluder) exclude(bucket *packed.Sorter, dst []chunk) ([]chunk, error) {
	var last stream.Address
	err := bucket.Each(func(record []byte) error {
		if len(record) >= len(last) && stream.Address(record[:len(last)]) != last {
			e.owner()
			last = stream.Address(record[:len(last)])
		}
		return e.add(record)
	})
	if err != nil {
		return dst, err
	}
	e.owner()
	return e.out.flush(dst), nil
}

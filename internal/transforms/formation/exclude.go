package formation

import (
	"encoding/binary"
	"slices"

	"minsep/internal/packed"
	"minsep/internal/stream"
)

// excluder finds the coins of an owner's examples that Algorithm 3 blocks: those with another coin
// of the owner in the b-1 steps before. An owner may have any number of coins; they wait in a spool
// until all are known.
type excluder struct {
	minSep int
	coins  packed.Spool // records of a coinPacker without the owner
	union  []int32      // steps of the owner's coins, with repetitions
	steps  []int32      // steps of one record
	out    *eventPacker
	held   int // number of blocked events in out
}

const (
	unionSteps  = 1 << 16 // in union before equal ones are merged
	blockedHeld = 1 << 16 // events before they are emitted
)

// coin records the coins of one example: its row and their steps.
func (e *excluder) coin(record []byte) error {
	if err := e.decode(record); err != nil {
		return err
	}
	// The union never needs more than one entry for a step, however many examples the owner has.
	if e.union = append(e.union, e.steps...); len(e.union) >= unionSteps && len(e.union) >= 4*e.out.steps {
		e.merge()
	}
	return e.coins.Add(record)
}

// merge sorts the union and removes repetitions.
func (e *excluder) merge() {
	slices.Sort(e.union)
	e.union = slices.Compact(e.union)
}

// decode reads the steps of a record.
func (e *excluder) decode(record []byte) error {
	if len(record) < 8 {
		return errChunk
	}
	e.steps = e.steps[:0]
	// Coins are drawn from step 1-b on: one before the first step blocks steps of the run too.
	step := int64(1 - e.minSep)
	for b := record[8:]; len(b) > 0; {
		delta, k := binary.Uvarint(b)
		step += int64(delta)
		if k <= 0 || step >= int64(e.out.steps) {
			return errChunk
		}
		e.steps = append(e.steps, int32(step))
		b = b[k:]
	}
	return nil
}

// owner packs the blocked coins of the current owner, then forgets the owner.
func (e *excluder) owner(emit emitChunk) error {
	e.merge()
	err := e.coins.Each(func(record []byte) error {
		if err := e.decode(record); err != nil {
			return err
		}
		row := int64(binary.BigEndian.Uint64(record))
		for _, step := range e.steps {
			at, _ := slices.BinarySearch(e.union, step)
			// The nearest earlier coin decides. It may be the same example's: its own coins block
			// as well.
			if step >= 0 && at > 0 && int(step)-int(e.union[at-1]) < e.minSep {
				e.out.add(row, step)
				e.held++
			}
		}
		if e.held >= blockedHeld {
			e.flush(emit)
		}
		return nil
	})
	e.coins.Reset()
	e.union = e.union[:0]
	return err
}

func (e *excluder) flush(emit emitChunk) {
	emitAll(e.out.flush(nil), emit)
	e.held = 0
}

// exclude goes through the owners of a bucket and emits the blocked events in chunks.
func (e *excluder) exclude(bucket *packed.Sorter, emit emitChunk) error {
	err := packed.Groups(
		bucket.Each,
		packed.FixedKey(len(stream.Address{})),
		func(record []byte, n int, _ bool) error { return e.coin(record[n:]) },
		func() error { return e.owner(emit) },
	)
	e.flush(emit)
	return err
}

package materialize

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"minsep/internal/packed"
	"minsep/manifest"
	"minsep/sampling/ownergraph"
	"minsep/transforms/progress"
)

// DataRead names the counter of rows of the data with their ids read. [Source.Rows] is the
// expected total.
const DataRead = "rows of the data read"

// dataRead counts rows for the progress of the command.
var dataRead = progress.New(DataRead)

// partsFn emits an empty chunk for each part of the table, so that a part without events has a task
// too: its ids must be in the data all the same.
type partsFn struct{ Config Config }

func (f *partsFn) ProcessElement(ctx context.Context, _ []byte, emit emitChunk) error {
	t, err := f.Config.openTable(ctx)
	if err != nil {
		return err
	}
	for p := range t.parts {
		emit(uint32(p), nil)
	}
	return nil
}

// eventsFn reads a shard of the batches, and emits by part of the table where its rows are in the
// steps.
type eventsFn struct {
	Config Config

	batches *manifest.Batches
	table   *table
	order   *orderer
	shards  shards
	packer  *packed.Packer
}

// Setup opens batches and table, and derives the key of the order.
func (f *eventsFn) Setup(ctx context.Context) (err error) {
	if f.batches, err = manifest.OpenBatches(ctx, f.Config.Batches); err != nil {
		return err
	}
	if f.table, err = f.Config.openTable(ctx); err != nil {
		return err
	}
	key, err := f.Config.orderKey(ctx)
	f.order, f.shards = newOrderer(key), newShards(f.Config, f.batches.Facts.Steps)
	return err
}

// StartBundle makes the packer of the bundle's chunks.
func (f *eventsFn) StartBundle(emitChunk) { f.packer = f.Config.packer(eventBytes, len(f.table.parts)) }

func (f *eventsFn) ProcessElement(ctx context.Context, shard int, emit emitChunk) error {
	return f.batches.EachOf(ctx, shard, func(step int, rows []int64, ends []int) error {
		if f.shards.done[f.shards.of(step)] {
			return ctx.Err()
		}
		var fault error
		f.order.each(step, rows, ends, func(e entry) {
			part, within, err := f.table.partOfRow(e.row)
			if err != nil {
				fault = err
				return
			}
			var b [eventBytes]byte
			binary.BigEndian.PutUint32(b[:], within)
			binary.BigEndian.PutUint32(b[4:], uint32(e.step))
			binary.BigEndian.PutUint32(b[8:], uint32(e.slot))
			binary.BigEndian.PutUint32(b[12:], uint32(e.owner))
			f.packer.Add(uint32(part), b[:], emit)
		})
		if fault != nil {
			return fault
		}
		return ctx.Err()
	})
}

// FinishBundle emits the chunks that are not full.
func (f *eventsFn) FinishBundle(emit emitChunk) error { return f.packer.Flush(emit) }

// idsFn reads the ids of a split of the data, and emits by part of the table where they are.
type idsFn struct {
	Config Config

	table  *table
	packer *packed.Packer
}

// Setup opens the table.
func (f *idsFn) Setup(ctx context.Context) (err error) {
	f.table, err = f.Config.openTable(ctx)
	return err
}

// StartBundle makes the packer of the bundle's chunks.
func (f *idsFn) StartBundle(emitChunk) { f.packer = f.Config.packer(0, len(f.table.parts)) }

func (f *idsFn) ProcessElement(ctx context.Context, unit string, emit emitChunk) error {
	var split Split
	if err := json.Unmarshal([]byte(unit), &split); err != nil {
		return fmt.Errorf("materialize: split: %w", err)
	}
	var record []byte
	return split.eachID(ctx, f.Config.IDColumn, f.table.firsts.Type, func(first int, ids *ownergraph.IDs) error {
		for i := range ids.Len() {
			part := f.table.partOf(ids, i)
			if part < 0 {
				continue
			}
			record = binary.BigEndian.AppendUint32(record[:0], uint32(split.Number))
			record = binary.BigEndian.AppendUint32(record, uint32(first+i))
			if ids.Type == ownergraph.Int64 {
				record = binary.BigEndian.AppendUint64(record, uint64(ids.Int(i)))
			} else {
				record = append(record, ids.Bytes(i)...)
			}
			f.packer.Add(uint32(part), record, emit)
		}
		dataRead.Add(ctx, ids.Len())
		return nil
	})
}

// FinishBundle emits the chunks that are not full.
func (f *idsFn) FinishBundle(emit emitChunk) error { return f.packer.Flush(emit) }

// joinFn finds the rows of a part in the data, and emits by split the places that they have in
// steps.
type joinFn struct {
	Config Config
	Splits int
	Named  bool // the data are files by name

	table  *table
	packer *packed.Packer
}

// Setup opens the table.
func (f *joinFn) Setup(ctx context.Context) (err error) {
	f.table, err = f.Config.openTable(ctx)
	return err
}

// StartBundle makes the packer of the bundle's chunks.
func (f *joinFn) StartBundle(emitChunk) { f.packer = f.Config.packer(placeBytes, f.Splits) }

// place is where a row of the table is in the data: the number of the split, counted from 1, and
// the row in the split. A split of 0 stands for nowhere.
type place struct{ split, row uint32 }

func (f *joinFn) ProcessElement(ctx context.Context, part uint32, events, ids func(*[]byte) bool, emit emitChunk) error {
	known, err := f.table.ids(ctx, int(part))
	if err != nil {
		return err
	}
	places := make([]place, known.Len())
	var twice []int // rows
	var id ownergraph.IDs
	for chunk := []byte(nil); ids(&chunk); {
		err := packed.Records(chunk, 0, func(record []byte) error {
			if len(record) < 8 || known.Type == ownergraph.Int64 && len(record) != 16 {
				return errRecord
			}
			id.Reset(known.Type)
			if known.Type == ownergraph.Int64 {
				id.AppendInt(int64(binary.BigEndian.Uint64(record[8:])))
			} else {
				id.AppendBytes(record[8:])
			}
			row, found := at(known, &id, 0)
			switch {
			case !found:
			case places[row].split != 0:
				twice = append(twice, row)
			default:
				places[row] = place{binary.BigEndian.Uint32(record) + 1, binary.BigEndian.Uint32(record[4:])}
			}
			return nil
		})
		if err != nil {
			return err
		}
	}
	if err := f.whole(known, places, twice); err != nil {
		return err
	}
	first := f.table.parts[part].First
	for chunk := []byte(nil); events(&chunk); {
		err := packed.Records(chunk, eventBytes, func(event []byte) error {
			within := binary.BigEndian.Uint32(event)
			if int(within) >= len(places) {
				return errRecord
			}
			at := places[within]
			var b [placeBytes]byte
			binary.BigEndian.PutUint32(b[:], at.row)
			binary.BigEndian.PutUint64(b[4:], uint64(first)+uint64(within))
			copy(b[12:], event[4:])
			f.packer.Add(at.split-1, b[:], emit)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return ctx.Err()
}

// FinishBundle emits the chunks that are not full.
func (f *joinFn) FinishBundle(emit emitChunk) error { return f.packer.Flush(emit) }

// whole refuses data that lack examples of the table, or have some more than once.
func (f *joinFn) whole(known *ownergraph.IDs, places []place, twice []int) error {
	var missing []int
	for row := range places {
		if places[row].split == 0 {
			missing = append(missing, row)
		}
	}
	switch {
	case missing != nil:
		return &DataError{Rule: fmt.Sprintf("at least %d of the run's examples %s not in the data, such as %s: every one must be there, in a batch or not%s", len(missing), are(missing), named(known, missing), f.endings(known, missing))}
	case twice != nil:
		slices.Sort(twice)
		return &DataError{Rule: fmt.Sprintf("at least %d of the run's examples %s in the data more than once, such as %s: an id must name one row%s", len(twice), are(twice), named(known, twice), f.endings(known, twice))}
	}
	return nil
}

// endings explains the missing or repeated files if the endings of their names may be the cause.
// "7" and "7.jpg" are both files of the id "7", and no file named "7.jpg" has the id "7.jpg".
func (f *joinFn) endings(known *ownergraph.IDs, rows []int) string {
	if !f.Named {
		return ""
	}
	for _, row := range rows {
		if id := known.Format(row); strings.Contains(id, ".") {
			return fmt.Sprintf("; the ending after the last dot of a file's name is not part of the id: add a further ending to the name of the file of %q, such as %q, and to all others", id, id+".bin")
		}
	}
	if len(rows) > 0 && known.Type == ownergraph.String {
		return "; the ending after the last dot of a file's name is not part of the id: names that differ only in it are one id"
	}
	return ""
}

// named lists some ids of a part, as many as a message can take.
func named(known *ownergraph.IDs, rows []int) string {
	var list []string
	for _, row := range rows[:min(3, len(rows))] {
		id := known.Format(row)
		if known.Type == ownergraph.String {
			id = fmt.Sprintf("%q", id)
		}
		list = append(list, id)
	}
	return strings.Join(list, ", ")
}

// are returns the verb of a message about these examples.
func are(rows []int) string {
	if len(rows) == 1 {
		return "is"
	}
	return "are"
}

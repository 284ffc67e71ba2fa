package formation

import (
	"context"
	"fmt"
	"reflect"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/ownergraph"
	"minsep/internal/stream"
	"minsep/sampling"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[fixedRangeFn]())
	beam.RegisterDoFn(reflect.TypeFor[fixedTableFn]())
}

// fixedRows is the largest number of examples of a fixed scheme. One worker holds them in memory:
// whether an example fits into a batch depends on all batches before it.
const fixedRows = 1<<31 - 1

// formFixed forms fixed batches of the examples that gather finds.
func formFixed(ctx context.Context, resolved side, emit emitChunk, gather func(c Config, t *fixedTable) error) error {
	r, err := ReadResolved(resolved)
	if err != nil {
		return err
	}
	c := r.Config
	key, err := c.key(ctx, orderPurpose)
	if err != nil {
		return err
	}
	if c.Examples > fixedRows {
		return fmt.Errorf(
			"%d examples: the scheme fixed forms its batches in memory, of at most %d examples: bound the graph to fewer, or name another scheme",
			c.Examples,
			fixedRows,
		)
	}
	t := &fixedTable{src: stream.NewSource(key)}
	if err := gather(c, t); err != nil {
		return err
	}
	rows, err := c.Spec.Fixed.Form(t.priority, t.owners)
	if err != nil {
		return err
	}
	emitFixed(c, rows, &t.ids, emit)
	return nil
}

// fixedRangeFn forms fixed batches of numbered examples, which are their own rows.
type fixedRangeFn struct{}

func (*fixedRangeFn) ProcessElement(ctx context.Context, _ []byte, resolved side, emit emitChunk) error {
	return formFixed(ctx, resolved, emit, func(c Config, t *fixedTable) error {
		t.priority = make([]uint64, c.Examples)
		for row := range t.priority {
			t.priority[row] = t.src.IntAddress(int64(row), 0).Uint64()
		}
		return nil
	})
}

// fixedTableFn forms fixed batches of all rows of a table. Owners matter only if they own several
// examples or an example has several copies.
type fixedTableFn struct{}

func (*fixedTableFn) ProcessElement(
	ctx context.Context,
	_ int,
	rows func(*[]byte) bool,
	resolved side,
	emit emitChunk,
) error {
	return formFixed(ctx, resolved, emit, func(c Config, t *fixedTable) error {
		for b := []byte(nil); rows(&b); {
			if err := t.add(b); err != nil {
				return err
			}
		}
		return t.sort(c.Examples)
	})
}

// fixedTable gathers the examples. The parts of a table come in any order. Keyed hashes put the
// examples into random order: the same one if the worker is repeated.
type fixedTable struct {
	src      *stream.Source
	parts    []ownergraph.Rows
	ids      ownergraph.IDs // of a table
	priority []uint64
	owners   *sampling.Owners // nil if the examples have no owners but themselves
}

func (t *fixedTable) add(b []byte) error {
	var r ownergraph.Rows
	if err := r.UnmarshalBinary(b); err != nil {
		return err
	}
	if r.Len() > 0 {
		t.parts = append(t.parts, r)
	}
	return nil
}

// sort puts the parts into the order of rows and numbers the owners.
func (t *fixedTable) sort(examples int64) error {
	slices.SortFunc(t.parts, func(a, b ownergraph.Rows) int { return int(a.First - b.First) })
	// The hash of an owner's id stands for the owner: it has one length and one type.
	number := make(map[stream.Address]int32)
	owners := &sampling.Owners{}
	for p := range t.parts {
		r := &t.parts[p]
		// A lost or repeated element would otherwise give other rows to the examples behind it.
		if r.First != int64(len(t.priority)) {
			return fmt.Errorf("row %d of the table follows row %d", r.First, len(t.priority)-1)
		}
		if p == 0 {
			t.ids.Reset(r.Examples.Type)
		} else if r.Examples.Type != t.ids.Type {
			return fmt.Errorf("ids of the table are of types %v and %v", t.ids.Type, r.Examples.Type)
		}
		for i := range r.Len() {
			t.ids.AppendFrom(&r.Examples, i)
			t.priority = append(t.priority, r.Examples.Address(t.src, i, 0).Uint64())
			for j, end := r.OwnersOf(i); j < end; j++ {
				u := r.Owners.Address(t.src, j, 1) // copy 1 keeps owners apart from the examples' own addresses
				if _, ok := number[u]; !ok {
					number[u] = int32(len(number))
				}
				owners.Of = append(owners.Of, number[u])
			}
			owners.Ends = append(owners.Ends, len(owners.Of))
		}
	}
	if int64(len(t.priority)) != examples {
		return fmt.Errorf("the table has %d rows, not %d", len(t.priority), examples)
	}
	t.parts = nil
	if len(owners.Of) > 0 {
		t.owners = owners
	}
	return nil
}

// fixedChunk is the number of participations after which chunks are emitted.
const fixedChunk = 1 << 18

// emitFixed emits rows, the batches one after the other, as events, and the ids of each shard's rows if
// they are needed.
func emitFixed(c Config, rows []int32, ids *ownergraph.IDs, emit emitChunk) {
	s := c.shards()
	events, size := newEventPacker(s, taken), c.Spec.Fixed.BatchSize
	since := 0
	for t := range s.steps {
		batch := rows[t*size : (t+1)*size]
		slices.Sort(batch) // files have the rows of a batch in ascending order, in every scheme
		for _, r := range batch {
			events.add(int64(r), int32(t))
		}
		if since += size; since >= fixedChunk {
			emitAll(events.flush(nil), emit)
			since = 0
		}
	}
	emitAll(events.flush(nil), emit)
	if c.needsNames() {
		emitNames(s, rows, size, ids, emit)
	}
}

// emitNames emits the id of each row once for each cell in which it takes part, where ids are carried.
func emitNames(s *shards, rows []int32, size int, ids *ownergraph.IDs, emit emitChunk) {
	for shard := range s.count {
		first := s.start[shard]
		distinct := slices.Clone(rows[int(first)*size : int(s.start[shard+1])*size])
		slices.Sort(distinct)
		names := newNamePacker(s)
		for _, r := range slices.Compact(distinct) {
			names.add(ids, int(r), int64(r), []int32{s.cell(int64(r), first)})
		}
		emitAll(names.flush(nil), emit)
	}
}

package transforms

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/ownergraph"
	"minsep/internal/packed"
	"minsep/internal/transforms/formation"
)

// Slot is the place of an example in the batches of a training.
type Slot struct {
	Step  int   // from 0
	Index int   // in the batch of the step, from 0
	Size  int   // of that batch, at least 1
	Row   int64 // of the example
}

func init() {
	beam.RegisterDoFn(reflect.TypeFor[slotsFn]())
	beam.RegisterDoFn(reflect.TypeFor[recordFn]())
	beam.RegisterDoFn(reflect.TypeFor[joinFn]())
	beam.RegisterDoFn(reflect.TypeFor[orderFn]())
	beam.RegisterType(reflect.TypeFor[Slot]())
	register.Emitter2[uint32, []byte]()
}

// joinBuckets is the number of buckets of ids in which entries and records meet.
const joinBuckets = 256

// Join brings the batches and your own records of the examples together: records is a
// PCollection<KV<K, R>> with K the type of the examples' ids, one record for each example that takes
// part, and the result a PCollection<KV<Slot, R>>. One worker emits the entries of a shard of steps,
// or of a block of its rows, step after step and entry after entry, so that a DoFn that follows directly
// can write them in that order; others find the order in the slots. A step in which nobody takes part
// has no entries.
//
// An example without a record, or with two, fails the pipeline without being named. A record passes
// the shuffle once for each of its entries, and is sorted through temporary files if memory does not
// hold those of a worker.
func (b Batches) Join(s beam.Scope, records beam.PCollection) (beam.PCollection, error) {
	s = s.Scope("minsep.Join")
	if err := b.check(); err != nil {
		return beam.PCollection{}, err
	}
	k, r, err := keyed("records", records)
	if err != nil {
		return beam.PCollection{}, err
	}
	if k != b.examples.key {
		return beam.PCollection{}, fmt.Errorf(
			"records: ids are of type %v: must be %v, as those of the examples",
			k,
			b.examples.key,
		)
	}
	if b.sampling.RowsOnly {
		return beam.PCollection{}, errors.New(
			"records are joined by the ids of examples, which the sampling leaves out: unset RowsOnly",
		)
	}
	of := beam.EncodedType{T: r}
	slots := b.drawn.Each(s, &slotsFn{})
	encoded := beam.ParDo(s, &recordFn{Record: of}, records)
	joined := beam.ParDo(
		s,
		&joinFn{TempDir: b.sampling.TempDir},
		beam.GroupByKey(s, beam.Flatten(s, slots, encoded)),
	)
	return beam.ParDo(
		s,
		&orderFn{Record: of, TempDir: b.sampling.TempDir},
		beam.GroupByKey(s, joined),
		beam.TypeDefinition{Var: beam.TType, T: r},
	), nil
}

// A record of the first shuffle is an example's id, its length before it; then recordMark and the
// user's record, or slotMark and a slot. So the record of an id sorts before its slots. A record of
// the second shuffle, by cell, is a slot and the user's record.
const (
	recordMark = 0
	slotMark   = 1
)

// appendKey appends id i of a column, with its length.
func appendKey(b []byte, ids *ownergraph.IDs, i int) []byte {
	if ids.Type == ownergraph.Int64 {
		return binary.BigEndian.AppendUint64(append(b, 8), uint64(ids.Int(i)))
	}
	id := ids.Bytes(i)
	return append(append(b, byte(len(id))), id...)
}

// joinBucket returns the bucket of a key.
func joinBucket(key []byte) uint32 {
	h := fnv.New64a()
	h.Write(key)
	return uint32(h.Sum64() % joinBuckets)
}

// slotBytes is the length of an encoded slot: cell, step, index and size of 4 bytes, row of 8.
const slotBytes = 24

// slotsFn emits the slots of a cell by bucket of the id.
type slotsFn struct{}

func (*slotsFn) ProcessElement(
	ctx context.Context,
	cell uint32,
	chunks, resolved, sizes func(*[]byte) bool,
	emit func(uint32, []byte),
) error {
	r, err := formation.ReadResolved(resolved)
	if err != nil {
		return err
	}
	packer := packed.NewPacker(joinBuckets)
	var record []byte
	err = formation.Assemble(ctx, r.Config, cell, chunks, sizes, math.MaxInt32, func(p *formation.Part) error {
		for i, row := range p.Rows {
			if p.IDs == nil {
				record = binary.BigEndian.AppendUint64(append(record[:0], 8), uint64(row))
			} else {
				record = appendKey(record[:0], p.IDs, int(p.Places[i]))
			}
			to := joinBucket(record)
			record = append(record, slotMark)
			for _, n := range []int{int(cell), p.Step, p.Before + i, p.Size} {
				record = binary.BigEndian.AppendUint32(record, uint32(n))
			}
			packer.Add(to, binary.BigEndian.AppendUint64(record, uint64(row)), emit)
		}
		return nil
	})
	return cmp.Or(err, packer.Flush(emit))
}

// recordFn emits the user's records, encoded, by bucket of the id.
type recordFn struct {
	Record beam.EncodedType

	encoder beam.ElementEncoder
	packer  *packed.Packer
	ids     ownergraph.IDs
}

func (f *recordFn) Setup() { f.encoder = beam.NewElementEncoder(f.Record.T) }

func (f *recordFn) StartBundle(func(uint32, []byte)) { f.packer = packed.NewPacker(joinBuckets) }

func (f *recordFn) ProcessElement(id beam.T, record beam.U, emit func(uint32, []byte)) error {
	typ, _ := columnType(reflect.TypeOf(id))
	f.ids.Reset(typ)
	var err error
	switch id := id.(type) {
	case int64:
		err = appendID(&f.ids, id)
	case uint64:
		err = appendID(&f.ids, id)
	case string:
		err = appendID(&f.ids, id)
	case []byte:
		err = appendID(&f.ids, id)
	}
	if err != nil {
		return err
	}
	key := appendKey(nil, &f.ids, 0)
	whole := bytes.NewBuffer(append(bytes.Clone(key), recordMark))
	if err := f.encoder.Encode(record, whole); err != nil {
		return err
	}
	f.packer.Add(joinBucket(key), whole.Bytes(), emit)
	return nil
}

func (f *recordFn) FinishBundle(emit func(uint32, []byte)) error { return f.packer.Flush(emit) }

// joinFn gives each slot of a bucket the record of its id, and sends both to the cell.
type joinFn struct{ TempDir string }

func (f *joinFn) ProcessElement(
	ctx context.Context,
	_ uint32,
	chunks func(*[]byte) bool,
	emit func(uint32, []byte),
) error {
	var id, record []byte
	found := false // record is that of id
	return eachSorted(f.TempDir, chunks, func(b []byte) error {
		end := 1 + int(b[0])
		key, payload := b[:end], b[end+1:]
		switch {
		case b[end] == recordMark && found && bytes.Equal(key, id):
			return errors.New("input: two records have the same id: records must have one for each example")
		case b[end] == recordMark:
			id, record, found = append(id[:0], key...), append(record[:0], payload...), true
			return nil
		case !found || !bytes.Equal(key, id):
			return errors.New(
				"input: an example that takes part has no record: records must have one for each example",
			)
		}
		cell := binary.BigEndian.Uint32(payload)
		emit(cell, packed.Chunk(payload[4:], record))
		return ctx.Err()
	})
}

// eachSorted calls f for the records of chunks, in order.
func eachSorted(dir string, chunks func(*[]byte) bool, f func(record []byte) error) error {
	return packed.Sort(dir, chunks, func(s *packed.Sorter) error { return s.Each(f) })
}

// orderFn emits the entries of a cell in the order of their slots.
type orderFn struct {
	Record  beam.EncodedType
	TempDir string

	decoder beam.ElementDecoder
}

func (f *orderFn) Setup() { f.decoder = beam.NewElementDecoder(f.Record.T) }

func (f *orderFn) ProcessElement(
	ctx context.Context,
	_ uint32,
	chunks func(*[]byte) bool,
	emit func(Slot, beam.T),
) error {
	return eachSorted(f.TempDir, chunks, func(b []byte) error {
		const head = slotBytes - 4 // the cell is known
		if len(b) < head {
			return errors.New("malformed entry of a batch")
		}
		number := func(at int) int { return int(binary.BigEndian.Uint32(b[at:])) }
		slot := Slot{
			Step:  number(0),
			Index: number(4),
			Size:  number(8),
			Row:   int64(binary.BigEndian.Uint64(b[12:])),
		}
		record, err := f.decoder.Decode(bytes.NewReader(bytes.Clone(b[head:])))
		if err == nil {
			emit(slot, record)
		}
		return cmp.Or(err, ctx.Err())
	})
}

package contribution

import (
	"bytes"
	"context"
	"encoding/binary"
	"reflect"
	"slices"
	"sort"

	"minsep/internal/ownergraph"
	"minsep/internal/packed"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[sampleFn]())
	beam.RegisterDoFn(reflect.TypeFor[rangeFn]())
	beam.RegisterDoFn(reflect.TypeFor[addFn]())
	beam.RegisterDoFn(reflect.TypeFor[rowsFn]())
	register.Iter2[uint32, []byte]()
}

// numberRows sorts the kept examples by their ids and numbers them: a sample of the ids divides
// them into ranges, a range is sorted after the shuffle, and its first row comes from the sizes of
// those before it. Neither the sample nor the number of ranges shows in the result.
func numberRows(s beam.Scope, spec spec, kept beam.PCollection) beam.PCollection {
	s = s.Scope("rows")
	sample := beam.ParDo(s, &sampleFn{Spec: spec}, kept)
	rows, counts := beam.ParDo2(s, &rangeFn{Spec: spec}, kept, beam.SideInput{Input: sample})
	sizes := beam.ParDo(s, &addFn{}, beam.GroupByKey(s.Scope("sizes"), counts))
	return beam.ParDo(s, &rowsFn{Spec: spec}, beam.GroupByKey(s, rows), beam.SideInput{Input: sizes})
}

// sampleFn emits the ids of a few examples: one in about every 256 KiB. It needs no random choice:
// the kept examples come in an order that hashes of their ids made.
type sampleFn struct {
	Spec spec

	passed int // bytes since the last
}

const sampleEvery = 256 << 10

// StartBundle makes the bundle's first example a part of the sample: a small graph, or a runner
// with small bundles, would have an empty sample otherwise.
func (f *sampleFn) StartBundle(func([]byte)) { f.passed = sampleEvery }

func (f *sampleFn) ProcessElement(_ uint32, chunk []byte, emit func([]byte)) error {
	return packed.Records(chunk, 0, func(example []byte) error {
		if f.passed += len(example); f.passed < sampleEvery {
			return nil
		}
		f.passed = 0
		head, err := f.Spec.keptHead(example)
		if err != nil {
			return err
		}
		example = example[head:]
		n, err := idLen(example, f.Spec.Examples)
		if err == nil {
			emit(bytes.Clone(example[:n]))
		}
		return err
	})
}

// rangeFn sends every kept example to the range of its id and counts the examples of each range.
type rangeFn struct {
	Spec spec

	splits [][]byte // ids at which ranges after the first begin
	ready  bool
	packer *packed.Packer
	counts []uint64
	record []byte
}

func (f *rangeFn) StartBundle(_ func(*[]byte) bool, _, _ packed.Emit) {
	f.ready = false
	f.packer = f.Spec.packer(0)
	f.counts = make([]uint64, f.Spec.Buckets)
}

func (f *rangeFn) ProcessElement(
	_ uint32,
	chunk []byte,
	sample func(*[]byte) bool,
	rows, _ func(uint32, []byte),
) error {
	if !f.ready { // a side input can be read in ProcessElement only
		f.splits, f.ready = splits(sample, f.Spec.Buckets), true
	}
	return packed.Records(chunk, 0, func(example []byte) error {
		head, err := f.Spec.keptHead(example)
		if err != nil {
			return err
		}
		copies, rest := example[:head], example[head:] // copies and pools
		n, err := idLen(rest, f.Spec.Examples)
		if err != nil {
			return err
		}
		id := rest[:n]
		to := uint32(sort.Search(len(f.splits), func(i int) bool { return bytes.Compare(f.splits[i], id) > 0 }))
		// The id comes first, so that records sort by it. Its encoding says where it ends.
		f.record = append(append(append(f.record[:0], id...), copies...), rest[n:]...)
		f.packer.Add(to, f.record, rows)
		f.counts[to]++
		return nil
	})
}

func (f *rangeFn) FinishBundle(
	ctx context.Context,
	_ func(*[]byte) bool,
	rows, counts func(uint32, []byte),
) error {
	err := f.packer.Flush(rows)
	rowsPacked.Add(ctx, f.packer.Packed())
	for to, n := range f.counts {
		if n > 0 {
			counts(uint32(to), binary.BigEndian.AppendUint64(nil, n))
		}
	}
	return err
}

// addFn adds the counts of a range up.
type addFn struct{}

func (*addFn) ProcessElement(rang uint32, counts func(*[]byte) bool, emit func(uint32, []byte)) error {
	sum := uint64(0)
	var n []byte
	for counts(&n) {
		if len(n) != 8 {
			return errRecord
		}
		sum += binary.BigEndian.Uint64(n)
	}
	emit(rang, binary.BigEndian.AppendUint64(nil, sum))
	return nil
}

// splits returns the sampled ids that divide the sample into n equal parts. It sorts them first:
// the order of a side input differs from worker to worker, and the ranges must not.
func splits(sample func(*[]byte) bool, n int) [][]byte {
	var ids [][]byte
	for id := []byte(nil); sample(&id); id = nil {
		ids = append(ids, id)
	}
	slices.SortFunc(ids, bytes.Compare)
	var out [][]byte
	for i := 1; i < n && len(ids) > 0; i++ {
		out = append(out, ids[i*len(ids)/n])
	}
	return slices.CompactFunc(out, bytes.Equal)
}

// rowsFn sorts the examples of a range and emits them as rows.
type rowsFn struct {
	Spec spec

	rows   ownergraph.Rows
	packer *packed.Packer // of no buckets: rows of about a chunk go alone
	record []byte
}

// rowsChunk is the number of bytes of ids at which rows are emitted.
const rowsChunk = 60 << 10

func (f *rowsFn) StartBundle(func(*uint32, *[]byte) bool, packed.Emit) {
	f.packer = packed.NewPacker(0, 0).Over(f.Spec.Overflow)
}

func (f *rowsFn) ProcessElement(
	rang uint32,
	chunks func(*[]byte) bool,
	counts func(*uint32, *[]byte) bool,
	emit func(uint32, []byte),
) error {
	// The first row of a range follows all rows of the ranges before it.
	row := int64(0)
	var r uint32
	var n []byte
	for counts(&r, &n) {
		if r < rang {
			row += int64(binary.BigEndian.Uint64(n))
		}
	}
	f.rows.Reset(row, f.Spec.Examples, f.Spec.Owners)
	held := 0
	return f.Spec.sortAndClose(0, chunks, func(s *packed.Sorter) error {
		err := s.Each(func(record []byte) error {
			// A chunk ends before it is large, and where a part of the table ends: a part is
			// written by one worker.
			if held += len(record); held > rowsChunk && f.rows.Len() > 0 || row%int64(f.Spec.RowsPerPart) == 0 && f.rows.Len() > 0 {
				if err := f.flush(row, emit); err != nil {
					return err
				}
				held = len(record)
			}
			row++
			return f.add(record)
		})
		if err != nil {
			return err
		}
		return f.flush(row, emit)
	})
}

func (f *rowsFn) FinishBundle(_ func(*uint32, *[]byte) bool, emit packed.Emit) error {
	return f.packer.Flush(emit)
}

// add adds a row.
func (f *rowsFn) add(record []byte) error {
	n, err := idLen(record, f.Spec.Examples)
	if err != nil {
		return err
	}
	id, rest := record[:n], record[n:]
	head, err := f.Spec.keptHead(rest)
	if err != nil {
		return err
	}
	decodeID(&f.rows.Examples, id)
	f.rows.Copies = append(f.rows.Copies, binary.BigEndian.Uint32(rest))
	if f.Spec.Bound.Pools > 0 {
		for pools := rest[copiesBytes+2 : head]; len(pools) > 0; pools = pools[2:] {
			f.rows.Pools = append(f.rows.Pools, uint32(binary.BigEndian.Uint16(pools)))
		}
		f.rows.PoolEnds = append(f.rows.PoolEnds, uint32(len(f.rows.Pools)))
	}
	for owners := rest[head:]; len(owners) > 0; owners = owners[n:] {
		if n, err = idLen(owners, f.Spec.Owners); err != nil {
			return err
		}
		decodeID(&f.rows.Owners, owners[:n])
	}
	f.rows.Ends = append(f.rows.Ends, uint32(f.rows.Owners.Len()))
	return nil
}

// flush emits the rows held, all of one part, and goes on at row.
func (f *rowsFn) flush(row int64, emit packed.Emit) error {
	if f.rows.Len() > 0 {
		var err error
		if f.record, err = f.rows.AppendBinary(f.record[:0]); err != nil {
			return err
		}
		f.packer.AddAlone(uint32(f.rows.First/int64(f.Spec.RowsPerPart)), f.record, emit)
	}
	f.rows.Reset(row, f.Spec.Examples, f.Spec.Owners)
	return nil
}

package contribution

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"math"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/ownergraph"
	"minsep/internal/packed"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[ownerFn]())
	beam.RegisterDoFn(reflect.TypeFor[nobodyFn]())
	beam.RegisterDoFn(reflect.TypeFor[decideFn]())
	register.Iter1[int64]()
}

// ownerFn numbers the owners of a bucket, and tells the worker that decides which example they own.
// It also emits how many owners the bucket has.
type ownerFn struct {
	Config Config

	packer *packed.Packer
	record []byte
}

func (f *ownerFn) StartBundle(_, _ packed.Emit) { f.packer = f.Config.packerToOne() }

func (f *ownerFn) ProcessElement(
	bucket uint32,
	chunks func(*[]byte) bool,
	ownerships, counts func(uint32, []byte),
) error {
	owners := int64(-1)
	keyLen := func(record []byte) (int, error) { return len(record) - turnBytes, nil }
	err := f.Config.sort(chunks, func(s *packed.Sorter) error {
		return packed.Groups(s.Each, keyLen, func(record []byte, n int, first bool) error {
			if first {
				if owners++; owners > math.MaxUint32 { // a number holds a place in 4 bytes
					return tooMany("owners", bucket, f.Config.Buckets)
				}
			}
			f.record = append(f.record[:0], record[n:]...)
			f.record = appendNumber(f.record, newNumber(bucket, uint32(owners)))
			f.packer.Add(0, f.record, ownerships)
			return nil
		}, func() error { return nil })
	})
	if err == nil {
		counts(bucket, binary.BigEndian.AppendUint64(nil, uint64(owners+1)))
	}
	return err
}

func (f *ownerFn) FinishBundle(ownerships, _ func(uint32, []byte)) error {
	return f.packer.Flush(ownerships)
}

// nobodyFn emits no ownership, so that a graph without edges is decided too.
type nobodyFn struct{}

func (*nobodyFn) ProcessElement(_ []byte, emit func(uint32, []byte)) { emit(0, nil) }

// decideFn decides about all examples, in one worker and with the code of the reference. Sorted,
// the ownerships are in the order of the pass. It holds 20 bytes for each owner, 12 for each kept
// example and 4 for each of its owners, and while neighbourhoods are counted some 16 more for each
// of these; with pools it holds all examples. It emits decisions to keep examples, and the number of
// the first row of each bucket.
type decideFn struct{ Config Config }

func (f *decideFn) ProcessElement(
	ctx context.Context,
	_ uint32,
	ownerships func(*[]byte) bool,
	counts func(*uint32, *[]byte) bool,
	duplicates func(*int64) bool,
	samples func(*[]byte) bool,
	decisions, firstRows packed.Emit,
	summary func([]byte),
) error {
	if f.Config.isSmall(readSample(samples)) {
		return nil // aloneFn decides
	}
	firstOwner, owners, err := f.firstOwners(counts)
	if err != nil {
		return err
	}
	pass := f.Config.Bound.NewPass(int(owners))
	var numbers []number // of the examples that are kept
	var of number
	var list []uint32 // owners of an example
	err = f.Config.sort(ownerships, func(s *packed.Sorter) error {
		return packed.Groups(s.Each, packed.FixedKey(turnBytes),
			func(record []byte, n int, first bool) error {
				if first {
					of, list = readExample(record), list[:0]
				}
				owner := readNumber(record[n:])
				list = append(list, firstOwner[owner.bucket()]+owner.place())
				return nil
			},
			func() error {
				examplesDecided.Add(ctx, 1)
				kept, err := pass.Add(list)
				if kept {
					numbers = append(numbers, of)
				}
				return err
			})
	})
	if err != nil {
		return err
	}
	var merged int64
	for n := int64(0); duplicates(&n); {
		merged += n
	}
	ids := ownergraph.IDs{} // numbers stand for the owners
	ids.Grow(int(owners))
	for u := range owners {
		ids.AppendInt(int64(u))
	}
	bounded, err := pass.Bounded(ids, merged)
	if err != nil {
		return err
	}
	packer, kept := f.Config.packer(), make([]uint64, f.Config.Buckets)
	var record []byte
	for e, copies := range bounded.Copies {
		if copies == 0 {
			continue
		}
		at := numbers[e]
		record = binary.BigEndian.AppendUint32(record[:0], at.place())
		record = binary.BigEndian.AppendUint32(record, copies)
		if bounded.Pools != nil {
			for _, pool := range bounded.Pools.Of.At(e) {
				record = binary.BigEndian.AppendUint16(record, uint16(pool))
			}
		}
		kept[at.bucket()]++
		packer.Add(at.bucket(), record, decisions)
	}
	row := uint64(0)
	for bucket, n := range kept {
		if n > 0 {
			firstRows(uint32(bucket), binary.BigEndian.AppendUint64(nil, row))
		}
		row += n
	}
	b, err := json.Marshal(bounded.Summary)
	if err != nil {
		return err
	}
	summary(b)
	return packer.Flush(decisions)
}

// firstOwners returns the number of the first owner of each bucket, and the number of all.
func (f *decideFn) firstOwners(counts func(*uint32, *[]byte) bool) (first []uint32, all uint32, err error) {
	inBucket := make([]uint64, f.Config.Buckets)
	var bucket uint32
	for n := []byte(nil); counts(&bucket, &n); {
		if len(n) != 8 || int(bucket) >= len(inBucket) {
			return nil, 0, ownergraph.ErrRecord
		}
		inBucket[bucket] = binary.BigEndian.Uint64(n)
	}
	first = make([]uint32, f.Config.Buckets)
	for bucket, n := range inBucket {
		if first[bucket] = all; uint64(all)+n > math.MaxUint32-1 {
			return nil, 0, ownergraph.ErrTooLarge
		}
		all += uint32(n)
	}
	return first, all, nil
}

package contribution

import (
	"bytes"
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"reflect"

	"minsep/internal/ownergraph"
	"minsep/internal/packed"
	"minsep/internal/stream"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[scatterFn]())
	beam.RegisterDoFn(reflect.TypeFor[gatherFn]())
	register.Iter1[[]byte]()
	register.Emitter1[[]byte]()
	register.Emitter1[int64]()
	register.Emitter2[uint32, []byte]()
}

// scatterFn sends every edge to the bucket of its example, a range of ids, or the edges of a small
// graph to one worker.
type scatterFn struct {
	Config Config

	small           bool
	splits          [][]byte // ids at which buckets after the first begin
	ready           bool
	packer, toAlone *packed.Packer
	edges           ownergraph.Edges
	record          []byte
}

func (f *scatterFn) StartBundle(_ func(*[]byte) bool, _, _ packed.Emit) {
	f.packer, f.toAlone = f.Config.packer(), f.Config.packerToOne()
	f.ready = false
}

func (f *scatterFn) ProcessElement(
	ctx context.Context,
	chunk []byte,
	sample func(*[]byte) bool,
	emit, alone func(uint32, []byte),
) error {
	if !f.ready { // a side input can be read in ProcessElement only
		s := readSample(sample)
		f.small, f.splits, f.ready = f.Config.isSmall(s), s.splits(f.Config.Buckets), true
	}
	if f.small {
		f.toAlone.AddAlone(0, chunk, alone)
		return nil
	}
	if err := f.edges.UnmarshalBinary(chunk); err != nil {
		return err
	}
	bucket := uint32(0)
	for i := range f.edges.Len() {
		f.record = f.edges.Examples.AppendSortable(f.record[:0], i)
		// Edges of one example often follow each other: its bucket is looked for once.
		if i == 0 || f.edges.Examples.Compare(i, &f.edges.Examples, i-1) != 0 {
			bucket = bucketOf(f.splits, f.record)
		}
		// One sort of a bucket brings the edges of an example together, and equal edges beside each
		// other.
		f.record = f.edges.Owners.AppendSortable(f.record, i)
		f.packer.Add(bucket, f.record, emit)
	}
	edgesRead.Add(ctx, f.edges.Len())
	return nil
}

func (f *scatterFn) FinishBundle(_ func(*[]byte) bool, emit, alone func(uint32, []byte)) error {
	return cmp.Or(f.packer.Flush(emit), f.toAlone.Flush(alone))
}

// gatherFn makes the examples of a bucket from their edges and numbers them in the order of their
// ids. It emits the examples, for each owner a membership with the example's turn, which is known
// once all of its owners are, and the number of edges that were merged with an equal one.
type gatherFn struct {
	Config Config

	src                   *stream.Source
	memberships, examples *packed.Packer
	duplicates            int64
	id                    ownergraph.IDs // of the current example
	record, example       []byte
}

func (f *gatherFn) Setup(ctx context.Context) error {
	key, err := f.Config.Key.Key(ctx, ownergraph.PriorityPurpose)
	if err != nil {
		return err
	}
	f.src = stream.NewSource(key)
	return nil
}

func (f *gatherFn) StartBundle(_, _ packed.Emit, _ func(int64)) {
	f.memberships = f.Config.packer()
	f.examples = f.Config.packer()
	f.duplicates = 0
}

func (f *gatherFn) ProcessElement(
	bucket uint32,
	chunks func(*[]byte) bool,
	toOwner, toExamples func(uint32, []byte),
	_ func(int64),
) error {
	return f.Config.sort(chunks, func(s *packed.Sorter) error {
		var last []byte // owner
		place, owners := int64(-1), int64(0)
		return packed.Groups(s.Each, f.Config.Examples.SortableLen,
			func(edge []byte, n int, first bool) error {
				owner := edge[n:]
				switch {
				case first:
					if place++; place > math.MaxUint32 { // records hold a place in 4 bytes
						return tooMany("examples", bucket, f.Config.Buckets)
					}
					f.id.Reset(f.Config.Examples)
					f.id.AddSortable(edge[:n])
					f.example = binary.BigEndian.AppendUint32(f.example[:0], uint32(place))
					f.example = append(f.example, edge...)
				case bytes.Equal(last, owner):
					f.duplicates++
					return nil
				default:
					f.example = append(f.example, owner...)
				}
				last = append(last[:0], owner...)
				owners++
				return nil
			},
			func() error {
				f.examples.Add(bucket, f.example, toExamples)
				// Only here are all owners of the example counted, and with them its class in the
				// order.
				class := f.Config.Bound.Order.Class(owners)
				priority := f.id.Address(f.src, 0, 0).Uint64()
				of := turn{class, priority, newNumber(bucket, uint32(place))}
				owners = 0
				return f.Config.eachOwner(f.example[placeBytes:], func(id []byte) {
					f.record = f.Config.appendOwner(f.record[:0], id)
					to := f.Config.ownerBucket(f.record)
					f.memberships.Add(to, of.append(f.record), toOwner)
				})
			})
	})
}

func (f *gatherFn) FinishBundle(toOwner, toExamples func(uint32, []byte), duplicates func(int64)) error {
	duplicates(f.duplicates)
	return cmp.Or(f.memberships.Flush(toOwner), f.examples.Flush(toExamples))
}

// tooMany is the error for a bucket with more than 2^32 examples or owners.
func tooMany(of string, bucket uint32, buckets int) error {
	return fmt.Errorf("bucket %d has more than 2^32 %s: give --buckets, above %d", bucket, of, buckets)
}

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

// scatterFn sends every edge to the bucket of its example: a range of priorities.
type scatterFn struct {
	Spec spec

	src    *stream.Source
	packer *packed.Packer
	edges  ownergraph.Edges
	record []byte
}

func (f *scatterFn) Setup(ctx context.Context) error {
	key, err := f.Spec.Key.Key(ctx, ownergraph.PriorityPurpose)
	if err != nil {
		return err
	}
	f.src = stream.NewSource(key)
	return nil
}

func (f *scatterFn) StartBundle(packed.Emit) {
	f.packer = f.Spec.packer(f.Spec.edgeWidth())
}

func (f *scatterFn) ProcessElement(ctx context.Context, chunk []byte, emit func(uint32, []byte)) error {
	if err := f.edges.UnmarshalBinary(chunk); err != nil {
		return err
	}
	if f.edges.Len() == 0 { // an empty chunk has no id types to compare
		return nil
	}
	if err := f.Spec.checkTypes(&f.edges); err != nil {
		return err
	}
	var priority uint64
	for i := range f.edges.Len() {
		// Edges of one example often follow each other: its priority, a hash, is computed once.
		if i == 0 || f.edges.Examples.Compare(i, &f.edges.Examples, i-1) != 0 {
			priority = f.edges.Examples.Address(f.src, i, 0).Uint64()
		}
		// The order of bytes is the order of the pass: priority, then example, then owner. So one
		// sort of a bucket brings the edges of an example together, and equal edges beside each
		// other.
		f.record = binary.BigEndian.AppendUint64(f.record[:0], priority)
		f.record = appendID(f.record, &f.edges.Examples, i)
		f.record = appendID(f.record, &f.edges.Owners, i)
		f.packer.Add(packed.Bucket(priority, f.Spec.Buckets), f.record, emit)
	}
	edgesRead.Add(ctx, f.edges.Len())
	return nil
}

func (f *scatterFn) FinishBundle(ctx context.Context, emit func(uint32, []byte)) error {
	err := f.packer.Flush(emit)
	edgesPacked.Add(ctx, f.packer.Packed())
	return err
}

// gatherFn makes the examples of a bucket from their edges and numbers them. It emits the examples,
// for each owner a membership with the example's turn, which is known once all of its owners are,
// and the number of edges that were merged with an equal one.
type gatherFn struct {
	Spec spec

	memberships, examples *packed.Packer
	duplicates            int64
	record, example       []byte
}

func (f *gatherFn) StartBundle(_, _ packed.Emit, _ func(int64)) {
	f.memberships = f.Spec.packer(f.Spec.membershipWidth())
	f.examples = f.Spec.packer(0)
	f.duplicates = 0
}

func (f *gatherFn) ProcessElement(
	bucket uint32,
	chunks func(*[]byte) bool,
	toOwner, toExamples func(uint32, []byte),
	_ func(int64),
) error {
	return f.Spec.sortAndClose(f.Spec.edgeWidth(), chunks, func(s *packed.Sorter) error {
		var last []byte // owner
		place, owners := int64(-1), int64(0)
		return eachGroup(s, f.Spec.exampleLen,
			func(edge []byte, n int, first bool) error {
				owner := edge[n:]
				switch {
				case first:
					if place++; place > math.MaxUint32 { // records hold a place in 4 bytes
						return tooMany("examples", bucket, f.Spec.Buckets)
					}
					f.example = binary.BigEndian.AppendUint32(f.example[:0], uint32(place))
					f.example = append(f.example, edge[priorityBytes:]...)
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
				of := newTurn(f.Spec.Bound.Order.Class(owners), newNumber(bucket, uint32(place)))
				owners = 0
				return f.Spec.eachOwner(f.example[placeBytes:], func(id []byte) {
					f.record = f.Spec.appendOwner(f.record[:0], id)
					to := f.Spec.ownerBucket(f.record)
					f.memberships.Add(to, appendTurn(f.record, of), toOwner)
				})
			})
	})
}

func (f *gatherFn) FinishBundle(
	ctx context.Context,
	toOwner, toExamples func(uint32, []byte),
	duplicates func(int64),
) error {
	err := cmp.Or(f.memberships.Flush(toOwner), f.examples.Flush(toExamples))
	membershipsPacked.Add(ctx, f.memberships.Packed())
	examplesPacked.Add(ctx, f.examples.Packed())
	duplicates(f.duplicates)
	return err
}

// tooMany is the error for a bucket with more than 2^32 examples or owners.
func tooMany(of string, bucket uint32, buckets int) error {
	return fmt.Errorf("bucket %d has more than 2^32 %s: give --buckets, above %d", bucket, of, buckets)
}

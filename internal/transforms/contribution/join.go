package contribution

import (
	"context"
	"encoding/binary"
	"reflect"
	"slices"

	"minsep/internal/packed"
	"minsep/internal/transforms/progress"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
)

func init() { beam.RegisterDoFn(reflect.TypeFor[joinFn]()) }

var (
	edgesRead       = progress.New("edges sorted")
	examplesDecided = progress.New("examples decided")
)

// placeBytes is the length of an example before its id.
const placeBytes = 4

// joinFn passes the examples of a bucket on that a decision keeps, with their copies and pools.
type joinFn struct {
	Spec spec

	packer  *packed.Packer
	decided [][]byte // by place of an example: its copies and pools; nil without a decision
	record  []byte
}

func (f *joinFn) StartBundle(packed.Emit) { f.packer = f.Spec.packer(0) }

func (f *joinFn) ProcessElement(
	bucket uint32,
	examples, decisions func(*[]byte) bool,
	kept func(uint32, []byte),
) error {
	// Decisions are small and are held; examples, which have all their owners, stream by.
	clear(f.decided)
	for chunk := []byte(nil); decisions(&chunk); chunk = nil {
		err := packed.Records(chunk, 0, func(d []byte) error {
			if len(d) < decisionBytes {
				return errRecord
			}
			// Places count up from 0 within a bucket, so that a slice serves in place of a map.
			place := int(binary.BigEndian.Uint32(d))
			if missing := place + 1 - len(f.decided); missing > 0 {
				f.decided = append(f.decided, make([][]byte, missing)...)
			}
			f.decided[place] = slices.Clone(d[placeBytes:])
			return nil
		})
		if err != nil {
			return err
		}
	}
	for chunk := []byte(nil); examples(&chunk); chunk = nil {
		err := packed.Records(chunk, 0, func(example []byte) error {
			if len(example) < placeBytes {
				return errRecord
			}
			place := int(binary.BigEndian.Uint32(example))
			if place >= len(f.decided) || f.decided[place] == nil {
				return nil
			}
			f.record = append(append(f.record[:0], f.decided[place]...), example[placeBytes:]...)
			f.packer.Add(bucket, f.record, kept)
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

func (f *joinFn) FinishBundle(ctx context.Context, kept func(uint32, []byte)) error {
	err := f.packer.Flush(kept)
	keptPacked.Add(ctx, f.packer.Packed())
	return err
}

package transforms

import (
	"encoding/binary"
	"errors"
	"fmt"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/ownergraph"
	"minsep/internal/transforms/formation"
)

// Functions of a generic type share one name, by which Beam looks them up, so each type of ids has
// coders of its own.
func init() {
	beam.RegisterCoder(reflect.TypeFor[Batch[int64]](), encodeInt64, decodeInt64)
	beam.RegisterCoder(reflect.TypeFor[Batch[uint64]](), encodeUint64, decodeUint64)
	beam.RegisterCoder(reflect.TypeFor[Batch[string]](), encodeString, decodeString)
	beam.RegisterCoder(reflect.TypeFor[Batch[[]byte]](), encodeBytes, decodeBytes)
}

func encodeInt64(b Batch[int64]) ([]byte, error)   { return encodeBatch(b) }
func encodeUint64(b Batch[uint64]) ([]byte, error) { return encodeBatch(b) }
func encodeString(b Batch[string]) ([]byte, error) { return encodeBatch(b) }
func encodeBytes(b Batch[[]byte]) ([]byte, error)  { return encodeBatch(b) }

func decodeInt64(b []byte) (Batch[int64], error)   { return decodeBatch[int64](b) }
func decodeUint64(b []byte) (Batch[uint64], error) { return decodeBatch[uint64](b) }
func decodeString(b []byte) (Batch[string], error) { return decodeBatch[string](b) }
func decodeBytes(b []byte) (Batch[[]byte], error)  { return decodeBatch[[]byte](b) }

// encodeBatch encodes step, part and parts as varints, rows and ends, and the column of ids.
func encodeBatch[K ID](v Batch[K]) ([]byte, error) {
	var b []byte
	for _, n := range []int{v.Step, v.Part, v.Parts} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	b = formation.AppendInts(formation.AppendInts(b, v.Rows), v.Ends)
	var ids ownergraph.IDs
	typ, _ := columnType(reflect.TypeFor[K]())
	ids.Reset(typ)
	ids.Grow(len(v.IDs))
	for _, id := range v.IDs {
		if err := appendID(&ids, id); err != nil {
			return nil, err
		}
	}
	return ids.AppendBinary(b), nil
}

var errBatch = errors.New("malformed batch")

func decodeBatch[K ID](b []byte) (v Batch[K], err error) {
	for _, n := range []*int{&v.Step, &v.Part, &v.Parts} {
		x, k := binary.Uvarint(b)
		if k <= 0 {
			return v, errBatch
		}
		*n, b = int(x), b[k:]
	}
	if v.Rows, b, err = formation.DecodeInts(v.Rows, b); err != nil {
		return v, err
	}
	if v.Ends, b, err = formation.DecodeInts(v.Ends, b); err != nil {
		return v, err
	}
	var ids ownergraph.IDs
	if b, err = ids.Decode(b); err != nil || len(b) > 0 {
		return v, fmt.Errorf("%w: %w", errBatch, err)
	}
	if n := ids.Len(); n > 0 {
		v.IDs = appendIDs(make([]K, 0, n), &ids, n)
	}
	return v, nil
}

package materialize

import (
	"encoding/binary"
	"errors"

	"github.com/parquet-go/parquet-go"
)

// errRecord is the error for bytes that no function below wrote.
var errRecord = errors.New("materialize: a record is cut short")

// eventBytes is the width of an event, that is the place of a part's row in a step: the row within
// its part, the step, the slot and the owner's number, 4 bytes each.
const eventBytes = 16

// placeBytes is the width of the place of a split's row in a step: the row within its split, the
// row of the table in 8 bytes, the step, the slot and the owner's number.
const placeBytes = 24

// appendEntry appends an entry in big endian, so that the order of the bytes is the order of step
// and slot.
func appendEntry(b []byte, e entry) []byte {
	b = binary.BigEndian.AppendUint32(b, uint32(e.step))
	b = binary.BigEndian.AppendUint32(b, uint32(e.slot))
	b = binary.BigEndian.AppendUint32(b, uint32(e.owner))
	return binary.BigEndian.AppendUint64(b, uint64(e.row))
}

// entryBytes is the width of an entry.
const entryBytes = 20

// readEntry reads the output of appendEntry, and returns the bytes after it.
func readEntry(b []byte) (e entry, rest []byte, err error) {
	if len(b) < entryBytes {
		return e, nil, errRecord
	}
	e.step, e.slot, e.owner = int32(binary.BigEndian.Uint32(b)), int32(binary.BigEndian.Uint32(b[4:])), int32(binary.BigEndian.Uint32(b[8:]))
	e.row = int64(binary.BigEndian.Uint64(b[12:]))
	return e, b[entryBytes:], nil
}

// appendRow appends the values of a row of the data. Each has its leaf, its levels, its kind plus
// 1, or 0 for null, and its bytes, with their number first if it varies.
func appendRow(b []byte, values parquet.Row) []byte {
	for _, v := range values {
		b = binary.AppendUvarint(b, uint64(v.Column()))
		b = append(b, byte(v.RepetitionLevel()), byte(v.DefinitionLevel()))
		if v.IsNull() {
			b = append(b, 0)
			continue
		}
		b = append(b, byte(v.Kind())+1)
		switch v.Kind() {
		case parquet.ByteArray, parquet.FixedLenByteArray:
			b = binary.AppendUvarint(b, uint64(len(v.ByteArray())))
			b = append(b, v.ByteArray()...)
		default: // at most 12 bytes: their number takes one
			b = append(b, 0)
			at := len(b)
			b = v.AppendBytes(b)
			b[at-1] = byte(len(b) - at)
		}
	}
	return b
}

// readRow reads the output of appendRow, and appends the values to dst. They hold parts of b.
func readRow(dst parquet.Row, b []byte) (parquet.Row, error) {
	for len(b) > 0 {
		column, n := binary.Uvarint(b)
		if n <= 0 || len(b) < n+3 {
			return dst, errRecord
		}
		repetition, definition, kind := int(b[n]), int(b[n+1]), parquet.Kind(b[n+2])-1
		b = b[n+3:]
		var v parquet.Value
		if kind >= 0 {
			size, n := binary.Uvarint(b)
			if n <= 0 || size > uint64(len(b)-n) {
				return dst, errRecord
			}
			end := n + int(size)
			v = kind.Value(b[n:end:end])
			b = b[end:]
		}
		dst = append(dst, v.Level(repetition, definition, int(column)))
	}
	return dst, nil
}

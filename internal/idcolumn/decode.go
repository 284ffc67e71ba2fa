package idcolumn

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"
)

// values are the values of a page or of a dictionary.
type values struct {
	kind    format.Type
	i64     []int64
	i32     []int32
	data    []byte
	offsets []uint32 // of byte arrays in data, and their end
	width   int      // of fixed-length bytes in data
}

// decode reads n values of a column, which src must hold exactly. The capacity of src is its length.
func (v *values) decode(c *Column, encoding format.Encoding, src []byte, n int) (err error) {
	v.kind, v.width = c.physical, c.width
	e := parquet.LookupEncoding(encoding)
	switch encoding {
	case format.Plain:
		end, err := v.plainEnd(src, n)
		if err != nil {
			return err
		}
		src = src[:end:end]
	case format.ByteStreamSplit:
	case format.DeltaBinaryPacked:
		if _, err := firstDeltas(src, n); err != nil {
			return err
		}
	case format.DeltaLengthByteArray, format.DeltaByteArray:
		return v.decodeLengths(encoding == format.DeltaByteArray, src, n)
	default:
		return fmt.Errorf("values in the encoding %v are not read", encoding)
	}
	count := 0
	switch v.kind {
	case format.Int64:
		v.i64, err = e.DecodeInt64(v.i64, src)
		count = len(v.i64)
	case format.Int32:
		v.i32, err = e.DecodeInt32(v.i32, src)
		count = len(v.i32)
	case format.ByteArray:
		v.data, v.offsets, err = e.DecodeByteArray(v.data, src, v.offsets)
		count = len(v.offsets) - 1
	default:
		v.data, err = e.DecodeFixedLenByteArray(v.data, src, v.width)
		count = len(v.data) / v.width
	}
	if err != nil || count != n {
		return errCount
	}
	return nil
}

// plainEnd returns how many bytes of src hold n plain values. Only zeros may follow, with which
// fastparquet fills up a page.
func (v *values) plainEnd(src []byte, n int) (end int, err error) {
	switch v.kind {
	case format.Int64:
		end = 8 * n
	case format.Int32:
		end = 4 * n
	case format.FixedLenByteArray:
		end = v.width * n
	case format.ByteArray:
		for range n {
			if len(src)-end < 4 || int64(binary.LittleEndian.Uint32(src[end:])) > int64(len(src)-end-4) {
				return 0, errCount
			}
			end += 4 + int(binary.LittleEndian.Uint32(src[end:]))
		}
	}
	if end > len(src) || len(bytes.TrimLeft(src[end:], "\x00")) > 0 {
		return 0, errCount
	}
	return end, nil
}

// decodeLengths reads n byte arrays with their lengths before them: the length of the prefix that
// each shares with the one before, if there are prefixes, and that of the rest.
func (v *values) decodeLengths(prefixes bool, src []byte, n int) error {
	var lengths [2][]int32
	for i := range lengths {
		if i == 0 && !prefixes {
			lengths[i] = make([]int32, n)
			continue
		}
		end, err := firstDeltas(src, n)
		if err != nil {
			return err
		}
		if lengths[i], err = parquet.DeltaBinaryPacked.DecodeInt32(nil, src[:end:end]); err != nil {
			return ErrCorrupt
		}
		src = src[end:]
	}
	v.data, v.offsets = v.data[:0], append(v.offsets[:0], 0)
	last := 0 // where the value before begins
	for i, prefix := range lengths[0] {
		start, suffix := len(v.data), int(lengths[1][i])
		if prefix < 0 || int(prefix) > start-last || suffix < 0 || suffix > len(src) ||
			start+int(prefix)+suffix > maxPageBytes {
			return ErrCorrupt
		}
		v.data = append(v.data, v.data[last:last+int(prefix)]...)
		v.data = append(v.data, src[:suffix]...)
		v.offsets = append(v.offsets, uint32(len(v.data)))
		if v.kind == format.FixedLenByteArray && len(v.data)-start != v.width {
			return ErrCorrupt
		}
		src, last = src[suffix:], start
	}
	if len(src) > 0 {
		return errCount
	}
	return nil
}

// firstRuns returns how many bytes of src hold its first n values, in runs of values of width bits,
// bit-packed in groups of eight or repeated.
func firstRuns(src []byte, width uint, n int) (length int, err error) {
	for values := uint64(0); values < uint64(n); {
		header, size := binary.Uvarint(src[length:])
		if size <= 0 || width > 32 || header>>1 > maxPageValues {
			return 0, errCount
		}
		length += size
		count, stored := header>>1, uint64(width+7)/8
		// A run of equal values ends where the values do. Bits are packed in groups of eight, and some
		// writers fill up many groups: their bytes are there, so they cannot claim much memory.
		most := uint64(n) + 8 - values
		if header&1 != 0 {
			stored = count * uint64(width)
			if count *= 8; width > 0 {
				most = 8*uint64(len(src)) + 1
			}
		}
		if count == 0 || count >= most || stored > uint64(len(src)-length) {
			return 0, errCount
		}
		length += int(stored)
		values += count
	}
	return length, nil
}

// firstDeltas returns how many bytes of src hold n values in the encoding DELTA_BINARY_PACKED: blocks
// of small blocks, each with a width in bits. The last small block need not be filled up.
func firstDeltas(src []byte, n int) (length int, err error) {
	if len(src) == 0 && n == 0 {
		return 0, nil
	}
	var header [4]uint64 // the values of a block, its small blocks, all values, the first value
	for i := range header {
		value, size := binary.Uvarint(src[length:])
		if size <= 0 {
			return 0, errCount
		}
		header[i] = value
		length += size
	}
	block, small := header[0], header[1]
	if block == 0 || small == 0 || block > maxPageValues || block%small != 0 || header[2] != uint64(n) {
		return 0, errCount
	}
	perSmall := block / small
	for left := max(n, 1) - 1; left > 0; {
		_, size := binary.Uvarint(src[length:]) // the smallest delta
		if size <= 0 || uint64(len(src)-length-size) < small {
			return 0, errCount
		}
		widths := src[length+size:][:small]
		length += size + int(small)
		for _, width := range widths {
			if left == 0 {
				break
			}
			values := min(perSmall, uint64(left))
			left -= int(values)
			needed := (values*uint64(width) + 7) / 8
			if width > 64 || needed > uint64(len(src)-length) {
				return 0, errCount
			}
			length += int(min(perSmall*uint64(width)/8, uint64(len(src)-length)))
		}
	}
	return length, nil
}

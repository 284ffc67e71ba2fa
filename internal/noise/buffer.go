package noise

import (
	"encoding/binary"
	"unsafe"
)

// Buffer holds rows of noise on their way to a file or a stream. One of its slices is empty.
type Buffer struct {
	generator *Generator
	float32s  []float32
	float64s  []float64
}

// NewBuffer returns room for a number of a generator's rows, as float64 or as float32.
func NewBuffer(g *Generator, rows int, double bool) *Buffer {
	if double {
		return &Buffer{generator: g, float64s: make([]float64, rows*g.Width())}
	}
	return &Buffer{generator: g, float32s: make([]float32, rows*g.Width())}
}

// Next makes the next rows, as many as b has room for or fewer, and returns them in little endian. The
// bytes are valid until the next call. Errors are those of [Generator.Fill32].
func (b *Buffer) Next(rows int) ([]byte, error) {
	values := rows * b.generator.Width()
	if b.float64s != nil {
		err := b.generator.Fill64(b.float64s[:values])
		return littleEndian(b.float64s[:values]), err
	}
	err := b.generator.Fill32(b.float32s[:values])
	return littleEndian(b.float32s[:values]), err
}

var bigEndian = binary.NativeEndian.Uint16([]byte{0, 1}) == 1

// littleEndian returns the bytes of values: on a little-endian processor their own memory.
func littleEndian[T float32 | float64](values []T) []byte {
	size := int(unsafe.Sizeof(values[0]))
	if !bigEndian {
		return unsafe.Slice((*byte)(unsafe.Pointer(&values[0])), size*len(values))
	}
	bytes, _ := binary.Append(nil, binary.LittleEndian, values) // which takes every slice of numbers
	return bytes
}

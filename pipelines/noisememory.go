package pipelines

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"unsafe"

	"minsep/manifest"
	"minsep/mechanism/noise"
)

// NoiseMemory is memory that a program shares for the rows of a stream of noise, so that nothing is
// copied through a pipe. It is divided into slots. The program asks for each row by naming a slot.
// The stream has its head, and then the step of each row as soon as the row is in its slot.
type NoiseMemory struct {
	Bytes []byte    // slots of a row each, rounded up to 4096 bytes; at most 256 are used
	Asked io.Reader // a byte for each row: the slot that it is made in
}

// noiseSlot divides the size of a slot, so that slots begin at pages.
const noiseSlot = 4096

// ErrNotAsked says that a program no longer asks for rows, before the last one.
var ErrNotAsked = errors.New("pipelines: standard input ended before the last row was asked for")

// rowBytes returns the size of a row.
func (h NoiseStreamHead) rowBytes() int { return int(h.End-h.First) * h.DType.Size() }

// slots returns the number of slots and the size of each.
func (m *NoiseMemory) slots(h NoiseStreamHead) (count, size int) {
	size = (h.rowBytes() + noiseSlot - 1) / noiseSlot * noiseSlot
	return min(256, len(m.Bytes)/size), size
}

// check refuses memory that is too small for a row, and processors in big endian.
func (m *NoiseMemory) check(h NoiseStreamHead) error {
	if count, size := m.slots(h); count == 0 {
		return &ParamError{Package: "pipelines", Param: "memory", Value: fmt.Sprintf("%d bytes", len(m.Bytes)), Rule: fmt.Sprintf("must have at least %d bytes, a row rounded up to a multiple of %d", size, noiseSlot)}
	}
	if binary.NativeEndian.Uint16([]byte{1, 0}) != 1 {
		return &ParamError{Package: "pipelines", Param: "memory", Value: "shared", Rule: "is for processors in little endian"}
	}
	return nil
}

// writer returns a function that makes the rows of s until its End as they are asked for, and
// tells out.
func (m *NoiseMemory) writer(s *noise.Stream, h NoiseStreamHead) func(ctx context.Context, out io.Writer) error {
	count, size := m.slots(h)
	asked := make(chan int)
	go func() { // which ends with the process, or with its input
		defer close(asked)
		var b [1]byte
		for range h.Steps - h.FromStep {
			if _, err := io.ReadFull(m.Asked, b[:]); err != nil {
				return
			}
			asked <- int(b[0])
		}
	}()
	return func(ctx context.Context, out io.Writer) error {
		for s.Step() < s.End {
			var slot int
			var ok bool
			select {
			case slot, ok = <-asked:
			case <-ctx.Done():
				return ctx.Err()
			}
			if !ok {
				return ErrNotAsked
			}
			if slot >= count {
				return &ParamError{Package: "pipelines", Param: "memory", Value: fmt.Sprintf("slot %d", slot), Rule: fmt.Sprintf("must be 0 to %d", count-1)}
			}
			step := s.Step()
			if err := fillBytes(s, m.Bytes[slot*size:][:h.rowBytes()], h.DType); err != nil {
				return err
			}
			if _, err := out.Write(binary.LittleEndian.AppendUint64(nil, uint64(step))); err != nil {
				return err
			}
		}
		return nil
	}
}

// fillBytes makes the next row in memory that begins at a multiple of 8.
func fillBytes(s *noise.Stream, row []byte, dtype manifest.DType) error {
	first := unsafe.Pointer(&row[0])
	if dtype == manifest.DFloat64 {
		return s.Fill64(unsafe.Slice((*float64)(first), len(row)/8))
	}
	return s.Fill32(unsafe.Slice((*float32)(first), len(row)/4))
}

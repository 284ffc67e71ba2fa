package manifestio

import (
	"encoding/binary"
	"errors"
	"io"

	"minsep/internal/manifest"
	"minsep/sampling"
)

// BatchSink writes the batches of one shard of steps. R is the type of row numbers in the files.
type BatchSink[R int32 | int64] struct {
	Dir           string // folder, which must exist
	Shard, Shards int    // number of this shard, from 0, and of all shards
	First         int    // first step of the shard, from 0
	Pad           int    // if above 0, smaller batches are padded to this size with [sampling.PadRow]
}

// Write writes indptr (int64[steps+1]) and rows of a shard. Batch t is rows[starts[t]:starts[t+1]],
// in ascending order. Where owners take part, the rows of owner i end at ends[i] and contain their
// padding, and Write also writes owners (int64[owners+1]), the offsets in rows at which each owner's
// rows begin, and the end; else ends is nil.
func (s BatchSink[R]) Write(starts []int64, rows []R, ends []int64) ([]manifest.File, error) {
	if ends != nil {
		s.Pad = 0
	}
	steps := len(starts) - 1
	indptr := make([]int64, steps+1)
	for t := range steps {
		indptr[t+1] = indptr[t] + max(int64(s.Pad), starts[t+1]-starts[t])
	}
	index, err := s.array(
		manifest.IndptrName(s.Shard, s.Shards),
		manifest.DInt64,
		len(indptr),
		func(w io.Writer) error { return writeInts(w, indptr) },
	)
	if err != nil {
		return nil, err
	}
	data, err := s.array(
		manifest.RowsName(s.Shard, s.Shards),
		dtype[R](),
		int(indptr[steps]),
		func(w io.Writer) error { return s.writeRows(w, starts, indptr, rows) },
	)
	if err != nil || ends == nil {
		return []manifest.File{index, data}, err
	}
	owners, err := s.array(
		manifest.OwnersName(s.Shard, s.Shards),
		manifest.DInt64,
		len(ends)+1,
		func(w io.Writer) error { return errors.Join(writeInts(w, []int64{0}), writeInts(w, ends)) },
	)
	return []manifest.File{index, data, owners}, err
}

// array writes a file of n numbers of a type.
func (s BatchSink[R]) array(
	name string,
	of manifest.DType,
	n int,
	write func(io.Writer) error,
) (manifest.File, error) {
	return manifest.WriteFile(s.Dir, name, manifest.SecretFile, func(w io.Writer) error {
		if err := (manifest.NPYHeader{DType: of, Shape: []int{n}}).Write(w); err != nil {
			return err
		}
		return write(w)
	})
}

func (s BatchSink[R]) writeRows(w io.Writer, starts, indptr []int64, rows []R) error {
	if s.Pad == 0 {
		return writeInts(w, rows[:starts[len(starts)-1]])
	}
	var batch []R
	for t := range len(starts) - 1 {
		batch = append(batch[:0], rows[starts[t]:starts[t+1]]...)
		for int64(len(batch)) < indptr[t+1]-indptr[t] {
			batch = append(batch, sampling.PadRow)
		}
		if err := writeInts(w, batch); err != nil {
			return err
		}
	}
	return nil
}

func dtype[R int32 | int64]() manifest.DType {
	if _, ok := any(R(0)).(int32); ok {
		return manifest.DInt32
	}
	return manifest.DInt64
}

// writeInts writes v in little endian.
func writeInts[R int32 | int64](w io.Writer, v []R) error {
	var buf [1 << 15]byte
	size := dtype[R]().Size()
	for len(v) > 0 {
		n := min(len(v), len(buf)/size)
		for i, x := range v[:n] {
			if size == 4 {
				binary.LittleEndian.PutUint32(buf[4*i:], uint32(x))
			} else {
				binary.LittleEndian.PutUint64(buf[8*i:], uint64(x))
			}
		}
		if _, err := w.Write(buf[:n*size]); err != nil {
			return err
		}
		v = v[n:]
	}
	return nil
}

package manifestio

import (
	"cmp"
	"encoding/binary"
	"errors"
	"io"

	"minsep/internal/manifest"
	"minsep/sampling"
)

// BatchSink writes the batches of one shard of steps.
type BatchSink struct {
	Dir           string // folder, which must exist
	Shard, Shards int    // number of this shard, from 0, and of all shards
	First         int    // first step of the shard, from 0
	RowType       manifest.DType
	Owned         int // if above 0, owners take part, each with up to so many rows
	Pad           int // if above 0, batches of fewer rows or owners are filled with [sampling.PadRow]
}

// UseRows takes rows of a step. Steps ascend, and the rows of one may come in several calls, in order.
// Where owners take part, those of owner i end at ends[i].
type UseRows = func(step int, rows []int64, ends []int) error

var errRows = errors.New("a batch has another number of rows than was counted")

// Write writes indptr (int64[steps+1]) and rows of a shard: counts are the numbers of rows of its steps,
// and each gives the rows to its argument. Where owners take part, Write also writes owners
// (int64[owners+1]), the offsets in rows at which each owner's rows begin, and the end.
func (s BatchSink) Write(counts []int, each func(UseRows) error) ([]manifest.File, error) {
	indptr := []int64{0}
	total := 0
	for _, n := range counts {
		if s.Pad > 0 {
			n = s.Pad * max(1, s.Owned)
		}
		total += n
		indptr = append(indptr, int64(total))
	}
	index, err := s.int64s(manifest.IndptrName(s.Shard, s.Shards), indptr)
	if err != nil {
		return nil, err
	}
	var owners []int64
	data, err := s.array(manifest.RowsName(s.Shard, s.Shards), s.RowType, total, func(w *intWriter) (err error) {
		owners, err = s.rows(w, indptr, each)
		return err
	})
	if err != nil || s.Owned == 0 {
		return []manifest.File{index, data}, err
	}
	last, err := s.int64s(manifest.OwnersName(s.Shard, s.Shards), owners)
	return []manifest.File{index, data, last}, err
}

// rows writes the rows, and returns where owners begin and the last one ends.
func (s BatchSink) rows(w *intWriter, indptr []int64, each func(UseRows) error) ([]int64, error) {
	owners := []int64{0}
	fill := func(to int64) error { // the end of a step
		for s.Pad > 0 && w.written < to {
			w.add(sampling.PadRow)
			if s.Owned > 0 && w.written%int64(s.Owned) == 0 {
				owners = append(owners, w.written)
			}
		}
		if w.written != to {
			return errRows
		}
		return w.err
	}
	err := each(func(step int, rows []int64, ends []int) error {
		// A step's rows may have come in part: it is filled once a later one begins.
		if err := fill(max(w.written, indptr[step-s.First])); err != nil {
			return err
		}
		if s.Owned == 0 {
			ends = []int{len(rows)}
		}
		start := 0
		for _, end := range ends {
			w.add(rows[start:end]...)
			start = end
			for s.Pad > 0 && s.Owned > 0 && w.written%int64(s.Owned) != 0 {
				w.add(sampling.PadRow)
			}
			owners = append(owners, w.written)
		}
		return w.err
	})
	return owners, cmp.Or(err, fill(indptr[len(indptr)-1]))
}

func (s BatchSink) int64s(name string, list []int64) (manifest.File, error) {
	return s.array(name, manifest.DInt64, len(list), func(w *intWriter) error {
		w.add(list...)
		return nil
	})
}

// array writes a file of n numbers of a type.
func (s BatchSink) array(
	name string,
	of manifest.DType,
	n int,
	write func(*intWriter) error,
) (manifest.File, error) {
	return manifest.WriteFile(s.Dir, name, manifest.SecretFile, func(out io.Writer) error {
		if err := (manifest.NPYHeader{DType: of, Shape: []int{n}}).Write(out); err != nil {
			return err
		}
		w := &intWriter{out: out, short: of.Size() == 4}
		err := write(w)
		w.flush()
		return cmp.Or(err, w.err)
	})
}

// intWriter writes integers in little endian.
type intWriter struct {
	out     io.Writer
	short   bool // 4 bytes each, not 8
	buf     []byte
	written int64
	err     error // the first one
}

func (w *intWriter) add(list ...int64) {
	w.written += int64(len(list))
	for _, x := range list {
		if w.short {
			w.buf = binary.LittleEndian.AppendUint32(w.buf, uint32(x))
		} else {
			w.buf = binary.LittleEndian.AppendUint64(w.buf, uint64(x))
		}
		if len(w.buf) >= 1<<15 {
			w.flush()
		}
	}
}

func (w *intWriter) flush() {
	if w.err == nil {
		_, w.err = w.out.Write(w.buf)
	}
	w.buf = w.buf[:0]
}

package formation

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"slices"

	"minsep/internal/manifest"
	"minsep/internal/packed"
	"minsep/internal/transforms/manifestio"
)

// AppendInts appends the length of a list and the differences of its numbers as varints, which are
// short if it ascends.
func AppendInts[T int | int64](b []byte, list []T) []byte {
	b = binary.AppendUvarint(b, uint64(len(list)))
	last := T(0)
	for _, x := range list {
		b = binary.AppendVarint(b, int64(x-last))
		last = x
	}
	return b
}

// DecodeInts appends to list what AppendInts wrote, and returns the rest of b.
func DecodeInts[T int | int64](list []T, b []byte) (_ []T, rest []byte, err error) {
	n, k := binary.Uvarint(b)
	if k <= 0 || n > uint64(len(b)) {
		return nil, nil, errInts
	}
	b = b[k:]
	last := int64(0)
	for ; n > 0; n-- {
		d, k := binary.Varint(b)
		if k <= 0 {
			return nil, nil, errInts
		}
		last, b = last+d, b[k:]
		list = append(slices.Grow(list, int(n)), T(last))
	}
	return list, b, nil
}

var errInts = errors.New("malformed list of numbers")

// pieceRows is the number of rows of a piece: a part of a step on its way from the worker of a cell to
// that of the shard's files. It is a record of the step and the number of the part, 4 bytes each, its
// rows and its ends.
const pieceRows = 1 << 14

// piecesFn emits the pieces of a cell by shard.
type piecesFn struct{}

func (*piecesFn) ProcessElement(
	ctx context.Context,
	cell uint32,
	chunks, resolved, sizes side,
	emit emitChunk,
) error {
	c, err := readConfig(resolved)
	if err != nil {
		return err
	}
	return Assemble(ctx, c, cell, chunks, sizes, pieceRows, func(p *Part) error {
		b := binary.BigEndian.AppendUint32(nil, uint32(p.Step))
		b = binary.BigEndian.AppendUint32(b, uint32(p.Part))
		emit(cell/uint32(c.Blocks), packed.Chunk(AppendInts(AppendInts(b, p.Rows), p.Ends)))
		return nil
	})
}

// writeFn writes the files of a shard of steps, once the rows are known to be complete: from the chunks
// of its one cell, or from pieces.
type writeFn struct{ Dir string }

func (f *writeFn) ProcessElement(
	ctx context.Context,
	shard uint32,
	chunks, resolved, sizes side,
	emit func(string),
) error {
	c, err := readConfig(resolved)
	if err != nil {
		return err
	}
	sink := manifestio.BatchSink{Dir: f.Dir, Shard: int(shard), Shards: c.Shards, First: int(c.shards().start[shard]), RowType: manifest.RowType(c.Examples)}
	if o := c.Spec.Owners; o != nil {
		sink.Owned = o.ExamplesPerOwner
	}
	if t := c.Spec.Truncation; t != nil && t.Pad {
		sink.Pad = t.MaxBatchSize
	}
	t, all, err := c.among(ctx, shard*uint32(c.Blocks), sizes)
	if err != nil {
		return err
	}
	var files []manifest.File
	if c.Blocks > 1 {
		err = packed.Sort(c.TempDir, chunks, func(s *packed.Sorter) (err error) {
			files, err = sink.Write(rowsOf(all), func(use manifestio.UseRows) error {
				return s.Each(func(piece []byte) error {
					rows, b, err := DecodeInts[int64](nil, piece[8:])
					ends, _, more := DecodeInts[int](nil, b)
					return cmp.Or(err, more, use(int(binary.BigEndian.Uint32(piece)), rows, ends))
				})
			})
			return err
		})
	} else if b, e := c.assemble(ctx, shard, chunks, t); e != nil {
		return e
	} else {
		all = [][]size{b.sizes()}
		files, err = sink.Write(rowsOf(all), func(use manifestio.UseRows) error {
			return b.each(c, 0, all, pieceRows, func(p *Part) error { return use(p.Step, p.Rows, p.Ends) })
		})
	}
	return cmp.Or(err, manifestio.EmitFiles(files, emit))
}

// rowsOf returns the number of rows of each step of a shard.
func rowsOf(all [][]size) []int {
	rows := make([]int, len(all[0]))
	for _, of := range all {
		for t := range rows {
			rows[t] += of[t].Rows
		}
	}
	return rows
}

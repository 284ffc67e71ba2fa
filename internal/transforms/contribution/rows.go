package contribution

import (
	"cmp"
	"context"
	"encoding/binary"
	"reflect"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/ownergraph"
	"minsep/internal/packed"
)

func init() { beam.RegisterDoFn(reflect.TypeFor[rowsFn]()) }

// rowsFn makes the rows of a bucket of examples from the decisions to keep them. Places are in the
// order of the ids, and buckets too.
type rowsFn struct {
	Config Config

	decided [][]byte // by place of an example: its copies and pools; nil without a decision
	rows    ownergraph.Rows
	held    int            // bytes of rows
	packer  *packed.Packer // of no buckets: rows of about a chunk go alone
	record  []byte
}

// rowsChunk is the number of bytes of ids at which rows are emitted.
const rowsChunk = 60 << 10

func (f *rowsFn) StartBundle(packed.Emit) {
	f.packer = packed.NewPacker(0).Over(f.Config.Overflow)
}

func (f *rowsFn) ProcessElement(
	_ context.Context,
	_ uint32,
	examples, decisions, firsts func(*[]byte) bool,
	emit func(uint32, []byte),
) error {
	row := int64(0) // the next one
	for b := []byte(nil); firsts(&b); b = nil {
		if len(b) != 8 {
			return ownergraph.ErrRecord
		}
		row = int64(binary.BigEndian.Uint64(b))
	}
	if err := f.read(decisions); err != nil {
		return err
	}
	f.reset(row)
	return f.Config.sort(examples, func(s *packed.Sorter) error {
		err := s.Each(func(example []byte) error {
			if len(example) < placeBytes {
				return ownergraph.ErrRecord
			}
			place := int(binary.BigEndian.Uint32(example))
			if place >= len(f.decided) || f.decided[place] == nil {
				return nil
			}
			// A chunk ends before it is large, and where a part of the table ends: a part is
			// written by one worker.
			f.held += len(example)
			if f.rows.Len() > 0 && (f.held > rowsChunk || row%int64(f.Config.RowsPerPart) == 0) {
				if err := f.flush(row, emit); err != nil {
					return err
				}
				f.held = len(example)
			}
			row++
			return f.add(f.decided[place], example[placeBytes:])
		})
		return cmp.Or(err, f.flush(row, emit))
	})
}

// read reads the decisions, which are small.
func (f *rowsFn) read(decisions func(*[]byte) bool) error {
	clear(f.decided)
	for chunk := []byte(nil); decisions(&chunk); chunk = nil {
		err := packed.Records(chunk, func(d []byte) error {
			if len(d) < placeBytes+copiesBytes {
				return ownergraph.ErrRecord
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
	return nil
}

func (f *rowsFn) FinishBundle(emit packed.Emit) error { return f.packer.Flush(emit) }

// add adds an example, its id and those of its owners, that is decided so.
func (f *rowsFn) add(decided, ids []byte) error {
	f.rows.Copies = append(f.rows.Copies, binary.BigEndian.Uint32(decided))
	if f.Config.Bound.Pools > 0 {
		for pools := decided[copiesBytes:]; len(pools) >= poolBytes; pools = pools[poolBytes:] {
			f.rows.Pools = append(f.rows.Pools, uint32(binary.BigEndian.Uint16(pools)))
		}
		f.rows.PoolEnds = append(f.rows.PoolEnds, uint32(len(f.rows.Pools)))
	}
	n, err := f.Config.Examples.SortableLen(ids)
	if err != nil {
		return err
	}
	f.rows.Examples.AddSortable(ids[:n])
	err = f.Config.eachOwner(ids, func(id []byte) { f.rows.Owners.AddSortable(id) })
	f.rows.Ends = append(f.rows.Ends, uint32(f.rows.Owners.Len()))
	return err
}

// flush emits the rows held, all of one part, and goes on at row.
func (f *rowsFn) flush(row int64, emit packed.Emit) error {
	if f.rows.Len() > 0 {
		var err error
		if f.record, err = f.rows.AppendBinary(f.record[:0]); err != nil {
			return err
		}
		f.packer.AddAlone(uint32(f.rows.First/int64(f.Config.RowsPerPart)), f.record, emit)
	}
	f.reset(row)
	return nil
}

func (f *rowsFn) reset(row int64) {
	f.rows.Reset(row, f.Config.Examples, f.Config.Owners)
	f.held = 0
}

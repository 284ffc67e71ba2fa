package ondisk

import (
	"context"
	"errors"
	"hash/maphash"
	"slices"
	"sort"

	"minsep/internal/ownergraph"
	"minsep/internal/packed"
)

const (
	ownerShelves = 256 // 1/256 of the owners are numbered at a time
	rangesHeld   = 32  // ranges of examples that are as large as the one in memory
	mostRanges   = 1 << 10
	batchEdges   = 1 << 12 // that wait in memory before they are written
)

// shelves hold edges in temporary files, one for each shelf.
type shelves struct {
	waiting []ownergraph.Edges // by shelf
	files   []packed.Spool     // by shelf: encoded batches
	seed    maphash.Seed
	record  []byte
}

func newShelves(dir string, example, owner ownergraph.IDType, n int) shelves {
	s := shelves{waiting: make([]ownergraph.Edges, n), files: make([]packed.Spool, n), seed: maphash.MakeSeed()}
	for i := range n {
		s.waiting[i].Reset(example, owner)
		s.files[i] = packed.Spool{Limit: 1, Dir: dir}
	}
	return s
}

// hash returns the shelf that an id belongs to by its hash.
func (s *shelves) hash(ids *ownergraph.IDs, i int) int {
	var hash uint64
	if ids.Type != ownergraph.Int64 {
		hash = maphash.Bytes(s.seed, ids.Bytes(i))
	} else {
		hash = maphash.Comparable(s.seed, ids.Int(i))
	}
	return int(packed.Bucket(hash, len(s.files)))
}

// add puts edge i of a batch on a shelf.
func (s *shelves) add(shelf int, e *ownergraph.Edges, i int) error {
	s.waiting[shelf].AppendFrom(e, i)
	return s.full(shelf)
}

// full writes the entries that wait for a shelf, once they are a batch.
func (s *shelves) full(shelf int) error {
	if s.waiting[shelf].Len() < batchEdges {
		return nil
	}
	return s.flush(shelf)
}

func (s *shelves) flush(shelf int) (err error) {
	waiting := &s.waiting[shelf]
	if s.record, err = waiting.AppendBinary(s.record[:0]); err != nil {
		return err
	}
	waiting.Reset(waiting.Examples.Type, waiting.Owners.Type)
	return s.files[shelf].Add(s.record)
}

// take calls f for the batches of a shelf, and removes its file.
func (s *shelves) take(ctx context.Context, shelf int, f func(*ownergraph.Edges) error) error {
	if err := s.flush(shelf); err != nil {
		return err
	}
	var batch ownergraph.Edges
	err := s.files[shelf].Each(func(record []byte) error {
		if err := errors.Join(ctx.Err(), batch.UnmarshalBinary(record)); err != nil {
			return err
		}
		return f(&batch)
	})
	return errors.Join(err, s.files[shelf].Close())
}

// Close removes all files.
func (s *shelves) Close() (err error) {
	for i := range s.files {
		err = errors.Join(err, s.files[i].Close())
	}
	return err
}

// sample are some of the ids that were added, evenly spread.
type sample struct {
	ids   ownergraph.IDs
	every int64 // one of so many is taken
	seen  int64
}

const sampleSize = 1 << 16

func (s *sample) add(ids *ownergraph.IDs, i int) {
	if s.every == 0 {
		s.every = 1
		s.ids.Reset(ids.Type)
	}
	if s.seen++; s.seen%s.every != 0 {
		return
	}
	s.ids.AppendFrom(ids, i)
	if s.ids.Len() < sampleSize {
		return
	}
	half := ownergraph.IDs{Type: ids.Type}
	for j := 1; j < s.ids.Len(); j += 2 {
		half.AppendFrom(&s.ids, j)
	}
	s.ids, s.every = half, 2*s.every
}

// ranges returns the first ids of the ranges of ids, but of the lowest: distinct ids, ascending,
// that divide the sample into n ranges of equal size where that can be.
func (s *sample) ranges(n int) (first ownergraph.IDs) {
	order := make([]int, s.ids.Len())
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(i, j int) int { return s.ids.Compare(i, &s.ids, j) })
	first.Reset(s.ids.Type)
	for r := 1; r < n && len(order) > 0; r++ {
		at := order[r*len(order)/n]
		if last := first.Len() - 1; last < 0 || s.ids.Compare(at, &first, last) > 0 {
			first.AppendFrom(&s.ids, at)
		}
	}
	return first
}

// rangeOf returns the range that an id is in.
func rangeOf(first, ids *ownergraph.IDs, i int) int {
	return sort.Search(first.Len(), func(r int) bool { return ids.Compare(i, first, r) < 0 })
}

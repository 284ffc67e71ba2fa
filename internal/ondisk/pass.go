package ondisk

import (
	"context"
	"encoding/binary"
	"errors"
	"math/bits"
	"runtime/debug"

	"minsep/internal/ownergraph"
)

// pass is the sequential pass of [ownergraph.Bound] over the records of the examples. It returns the
// kept examples in its order, without their ids, and their places in the order of the ids of all.
func (b *Bounder) pass(ctx context.Context, all *graph) (kept *ownergraph.Bounded, places []int64, err error) {
	// The pass needs one number for each owner, and no ids. That is why owners were numbered: the
	// numbers of 1e8 owners take 400 MB, wherever their examples are.
	pass := b.Bound.NewPass(all.owners.Len())
	var owners []uint32
	err = all.sorted.each(ctx, b, "bounding from files", "examples", all.given, func(record []byte) error {
		owners = owners[:0]
		for at := ownersAt; at < len(record); at += ownerBytes {
			owners = append(owners, binary.BigEndian.Uint32(record[at:]))
		}
		taken, err := pass.Add(owners)
		if taken {
			places = append(places, readPlace(record[placeAt:]))
		}
		return err
	})
	if err != nil {
		return nil, nil, b.fault(err)
	}
	b.Progress("collecting the kept examples", "", 0, 0)
	return pass.Bounded(all.owners, all.duplicates), places, nil
}

// byID brings the kept examples into the order of their ids, which it reads from the file.
func (b *Bounder) byID(ctx context.Context, all *graph, kept *ownergraph.Bounded, places []int64) error {
	// A set of places turns the order of the pass into that of the ids without a sort, and without the
	// ids in memory.
	set := newSet(all.given, places)
	g, copies, from := kept.Graph, make([]uint32, len(places)), kept.Graph.OwnersOf
	g.OwnersOf = ownergraph.Lists{Starts: make([]uint32, len(places)+1), Items: make([]uint32, len(from.Items))}
	for i, at := range places {
		to := set.before(at)
		copies[to] = kept.Copies[i]
		g.OwnersOf.Starts[to+1] = from.Starts[i+1] - from.Starts[i]
	}
	// So far Starts has the number of owners of each example: their sums are the places.
	for i := range copies {
		g.OwnersOf.Starts[i+1] += g.OwnersOf.Starts[i]
	}
	for i, at := range places {
		copy(g.OwnersOf.At(int(set.before(at))), from.At(i))
	}
	kept.Copies = copies
	g.Examples.Reset(b.Examples)
	g.Examples.Grow(len(copies))
	var batch ownergraph.IDs
	first := int64(0)
	err := all.examples.Each(func(record []byte) error {
		_, err := batch.Decode(record)
		if err = errors.Join(ctx.Err(), err); err != nil {
			return err
		}
		for i := range batch.Len() {
			if set.has(first + int64(i)) {
				g.Examples.AppendFrom(&batch, i)
			}
		}
		first += int64(batch.Len())
		return nil
	})
	debug.FreeOSMemory() // the table is written next, and the system caches its files
	return err
}

// set is a set of numbers from 0 on, and how many of its elements are below a number.
type set struct {
	words []uint64
	below []uint32 // by word: elements in the words before
}

// newSet returns the set of some distinct numbers below n.
func newSet(n int64, of []int64) set {
	s := set{make([]uint64, n/64+1), make([]uint32, n/64+1)}
	for _, v := range of {
		s.words[v/64] |= 1 << (v % 64)
	}
	count := uint32(0)
	for i, word := range s.words {
		s.below[i] = count
		count += uint32(bits.OnesCount64(word))
	}
	return s
}

func (s *set) has(v int64) bool { return s.words[v/64]>>(v%64)&1 == 1 }

// before returns how many elements are below v.
func (s *set) before(v int64) uint32 {
	return s.below[v/64] + uint32(bits.OnesCount64(s.words[v/64]&(1<<(v%64)-1)))
}

package ondisk

import (
	"context"
	"encoding/binary"
	"errors"
	"math"
	"slices"

	"minsep/internal/ownergraph"
	"minsep/internal/packed"
	"minsep/internal/stream"
)

// owners are all owners of the graph.
type owners struct {
	ids  ownergraph.IDs // ascending
	rank []uint32       // by the number that an owner got first: its number in the order of the ids
}

// numberOwners numbers the owners, and moves the edges to shelves by ranges of examples, with the
// numbers in place of the owners' ids.
func (b *Bounder) numberOwners(ctx context.Context) (ranges shelves, all owners, err error) {
	first := b.sample.ranges(int(min(b.edges/max(b.inMemory()/rangesHeld, 1)+1, mostRanges)))
	ranges = newShelves(b.Dir, b.Examples, ownergraph.Int64, first.Len()+1)
	b.Progress("numbering the owners", "edges", 0, b.edges)
	// Edges lie on shelves by a hash of the owner. So an owner is on one shelf, and the maps of a
	// numbering have the owners of one shelf at a time.
	ids, done := ownergraph.IDs{Type: b.Owners}, int64(0)
	for shelf := range b.files {
		numbers := newNumbering(&ids)
		err := b.take(ctx, shelf, func(e *ownergraph.Edges) error {
			for i := range e.Len() {
				to := rangeOf(&first, &e.Examples, i)
				waiting := &ranges.waiting[to]
				waiting.Examples.AppendFrom(&e.Examples, i)
				waiting.Owners.AppendInt(int64(numbers.of(&e.Owners, i)))
				if err := ranges.full(to); err != nil {
					return err
				}
			}
			done += int64(e.Len())
			b.Progress("numbering the owners", "edges", done, b.edges)
			return nil
		})
		if err != nil {
			return ranges, all, b.fault(err)
		}
		if uint64(ids.Len()) >= math.MaxUint32 {
			return ranges, all, ownergraph.ErrTooLarge
		}
	}
	all.ids, all.rank = ownergraph.Number(&ids)
	return ranges, all, nil
}

// numbering numbers the distinct ids of a shelf, behind the ids of the shelves before, in the order
// in which they come.
type numbering struct {
	ids      *ownergraph.IDs
	integers map[int64]uint32
	text     map[string]uint32
}

func newNumbering(ids *ownergraph.IDs) numbering {
	return numbering{ids, map[int64]uint32{}, map[string]uint32{}}
}

func (n *numbering) of(ids *ownergraph.IDs, i int) uint32 {
	next := uint32(n.ids.Len())
	if ids.Type != ownergraph.Int64 {
		number, seen := n.text[string(ids.Bytes(i))]
		if !seen {
			number, n.text[string(ids.Bytes(i))] = next, next
			n.ids.AppendFrom(ids, i)
		}
		return number
	}
	number, seen := n.integers[ids.Int(i)]
	if !seen {
		number, n.integers[ids.Int(i)] = next, next
		n.ids.AppendFrom(ids, i)
	}
	return number
}

// examples are all examples of the graph, in files.
type examples struct {
	given  ownergraph.Summary // the counts of the graph before it is bounded
	ids    packed.Spool       // batches of them, ascending
	sorted packed.Sorter      // records of them, in the order of the pass
}

func (e *examples) Close() error { return errors.Join(e.ids.Close(), e.sorted.Close()) }

// A record of an example has the class, the priority, the place in the order of ids, and then the
// numbers of the owners, all big endian: sorted as bytes, records are in the order of the pass.
const (
	placeAt    = 1 + 8
	placeBytes = 5
	ownersAt   = placeAt + placeBytes
	ownerBytes = 4
)

const (
	sortMemory = 1 << 30 // for which 1e9 edges make fewer runs than are merged at once
	sortChunk  = 1 << 20
)

// order reads the ranges of examples, counts the graph, and puts the examples in the order of the
// pass.
func (b *Bounder) order(ctx context.Context, ranges *shelves, of owners) (*examples, error) {
	all := &examples{ids: packed.Spool{Limit: 1, Dir: b.Dir}, sorted: packed.Sorter{Limit: sortMemory, Dir: b.Dir}}
	source := stream.NewSource(b.Key)
	perOwner := make([]uint32, of.ids.Len())
	var perExample ownergraph.Tally
	var record, chunk []byte
	var list []uint32
	done := int64(0)
	for r := range ranges.files {
		b.Progress("putting the examples in order", "edges", done, b.edges)
		edges := ownergraph.NewBuilder(b.Examples, ownergraph.Int64)
		if err := ranges.take(ctx, r, edges.Add); err != nil {
			return all, b.fault(err)
		}
		g, err := edges.Graph()
		if err != nil {
			return all, err
		}
		for e := range g.Examples.Len() {
			list = list[:0]
			for _, u := range g.OwnersOf.At(e) {
				number := of.rank[g.Owners.Int(int(u))]
				perOwner[number]++
				list = append(list, number)
			}
			slices.Sort(list) // the table has owners in ascending order
			perExample.Add(int64(len(list)), 1)
			address := g.Examples.Address(source, e, 0).Uint64()
			record = appendRecord(
				record[:0],
				b.Bound.Order.Class(int64(len(list))),
				address,
				all.given.Examples+int64(e),
				list,
			)
			// The sorter takes chunks of records, each with its length before it.
			chunk = binary.AppendUvarint(chunk, uint64(len(record)))
			if chunk = append(chunk, record...); len(chunk) >= sortChunk {
				if err := all.sorted.Add(chunk); err != nil {
					return all, b.fault(err)
				}
				chunk = make([]byte, 0, sortChunk+1<<10)
			}
		}
		if err := all.ids.Add(g.Examples.AppendBinary(nil)); err != nil {
			return all, b.fault(err)
		}
		all.given.Examples += int64(g.Examples.Len())
		all.given.Edges += g.Edges()
		all.given.DuplicateEdges += g.DuplicateEdges
		done += g.Edges() + g.DuplicateEdges
	}
	if err := all.sorted.Add(chunk); err != nil {
		return all, b.fault(err)
	}
	var given ownergraph.Tally
	for _, n := range perOwner {
		given.Add(int64(n), 1)
	}
	all.given.Owners = int64(len(perOwner))
	all.given.GivenPerOwner, all.given.GivenOwners = given.Histogram(), perExample.Histogram()
	return all, nil
}

// appendRecord appends an example to sort: its class, its address, its place among the examples
// given, and the numbers of its owners.
func appendRecord(record []byte, class byte, address uint64, given int64, owners []uint32) []byte {
	record = binary.BigEndian.AppendUint64(append(record, class), address)
	record = append(record, place(given)...)
	for _, u := range owners {
		record = binary.BigEndian.AppendUint32(record, u)
	}
	return record
}

// place encodes the place of an example in the order of the ids.
func place(at int64) []byte {
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(at))
	return b[8-placeBytes:]
}

// readPlace reads the output of place.
func readPlace(b []byte) int64 {
	return int64(b[0])<<32 | int64(binary.BigEndian.Uint32(b[1:placeBytes]))
}

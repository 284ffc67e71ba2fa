package ondisk

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"math"

	"minsep/internal/ownergraph"
	"minsep/internal/packed"
	"minsep/internal/stream"
)

const (
	sortMemory = 1 << 30 // for which 1e9 edges make about as many runs as are merged at once
	sortChunk  = 1 << 20
	sortEdge   = 64 // bytes of memory for an edge in a sorter
)

// sorter sorts records through files. It takes them one by one.
type sorter struct {
	packed.Sorter
	chunk []byte // of records, each with its length before it
}

func (b *Bounder) sorter() sorter {
	return sorter{Sorter: packed.Sorter{Limit: int(min(sortMemory/sortEdge, b.inMemory()) * sortEdge), Dir: b.Dir}}
}

func (s *sorter) add(record []byte) error {
	s.chunk = append(binary.AppendUvarint(s.chunk, uint64(len(record))), record...)
	if len(s.chunk) < sortChunk {
		return nil
	}
	return s.flush()
}

func (s *sorter) flush() error {
	chunk := s.chunk
	s.chunk = make([]byte, 0, sortChunk+1<<10)
	return s.Add(chunk)
}

// each calls f for every record in order, and then removes the files. It says how far it is of so
// many records.
func (s *sorter) each(ctx context.Context, b *Bounder, doing, unit string, of int64, f func(record []byte) error) error {
	done := int64(0)
	err := s.flush()
	if err == nil {
		err = s.Each(func(record []byte) error {
			if done%tellEvery == 0 {
				if err := ctx.Err(); err != nil {
					return err
				}
				b.Progress(doing, unit, done, of)
			}
			done++
			return f(record)
		})
	}
	return errors.Join(err, s.Close())
}

// tellEvery is the number of records after which a sorter says how far it is.
const tellEvery = 1 << 20

// graph is the whole graph, in files but for the owners.
type graph struct {
	owners     ownergraph.IDs // ascending: their places are their numbers
	examples   packed.Spool   // batches of their ids, ascending
	sorted     sorter         // records of examples, in the order of the pass
	given      int64          // examples
	duplicates int64          // edges that were merged with an equal one
}

func (g *graph) Close() error { return errors.Join(g.examples.Close(), g.sorted.Close()) }

// A record of an example has the class, the priority, the place in the order of ids, and then the
// numbers of the owners, all big endian: sorted as bytes, records are in the order of the pass.
const (
	placeAt    = 1 + 8
	placeBytes = 5
	ownersAt   = placeAt + placeBytes
	ownerBytes = 4
)

// inOrder numbers the owners, counts the graph, and puts the examples in the order of the pass.
func (b *Bounder) inOrder(ctx context.Context) (*graph, error) {
	g := &graph{
		owners:   ownergraph.IDs{Type: b.Owners},
		examples: packed.Spool{Limit: 1, Dir: b.Dir},
		sorted:   b.sorter(),
	}
	byExample := b.sorter() // records of an edge: the example, the number of the owner
	defer func() { byExample.Close() }()
	if err := b.numberOwners(ctx, g, &byExample); err != nil {
		return g, err
	}
	last := exampleRecords{source: stream.NewSource(b.Key), order: b.Bound.Order, graph: g}
	last.batch.Reset(b.Examples)
	edges := b.edges - g.duplicates
	each := func(f func([]byte) error) error {
		return byExample.each(ctx, b, "putting the examples in order", "edges", edges, f)
	}
	err := packed.Groups(each, b.Examples.SortableLen, func(record []byte, n int, first bool) error {
		if first {
			last.batch.AddSortable(record[:n])
		}
		last.owners = append(last.owners, record[n:]...)
		return nil
	}, last.end)
	if err == nil {
		err = g.examples.Add(last.batch.AppendBinary(nil))
	}
	return g, err
}

// numberOwners reads the edges by owner, and gives each with the number of its owner to the next
// sort.
func (b *Bounder) numberOwners(ctx context.Context, g *graph, byExample *sorter) error {
	var last, edge []byte
	each := func(f func([]byte) error) error {
		return b.byOwner.each(ctx, b, "numbering the owners", "edges", b.edges, f)
	}
	return packed.Groups(each, b.Owners.SortableLen, func(record []byte, n int, first bool) error {
		if bytes.Equal(record, last) {
			g.duplicates++
			return nil
		}
		if first {
			g.owners.AddSortable(record[:n])
		}
		if uint64(g.owners.Len()) >= math.MaxUint32 {
			return ownergraph.ErrTooLarge
		}
		last = append(last[:0], record...)
		edge = binary.BigEndian.AppendUint32(append(edge[:0], record[n:]...), uint32(g.owners.Len()-1))
		return byExample.add(edge)
	}, func() error { return nil })
}

// exampleRecords makes the records of examples, one after the other.
type exampleRecords struct {
	source *stream.Source
	order  ownergraph.Order
	graph  *graph

	batch  ownergraph.IDs // the example's id is the last
	owners []byte         // the numbers of its owners
	record []byte
}

const batchIDs = 1 << 12

// end adds the record of the example.
func (r *exampleRecords) end() error {
	class := r.order.Class(int64(len(r.owners) / ownerBytes))
	address := r.batch.Address(r.source, r.batch.Len()-1, 0).Uint64()
	r.record = binary.BigEndian.AppendUint64(append(r.record[:0], class), address)
	r.record = append(append(r.record, place(r.graph.given)...), r.owners...)
	r.graph.given++
	r.owners = r.owners[:0]
	if err := r.graph.sorted.add(r.record); err != nil {
		return err
	}
	if r.batch.Len() < batchIDs {
		return nil
	}
	err := r.graph.examples.Add(r.batch.AppendBinary(nil))
	r.batch.Reset(r.batch.Type)
	return err
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

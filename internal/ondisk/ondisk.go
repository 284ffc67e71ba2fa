// Package ondisk bounds a graph that is larger than memory in one process, through temporary files.
//
// # Behavior
//
// [Bounder] gives the same result, bit for bit, as [ownergraph.Bound.Greedy]. Up to a number of
// edges it holds the graph in memory, and calls that. Beyond, three sorts through files do the work:
//
//  1. Edges are sorted by owner. Read in that order, the owners get numbers, and equal edges are
//     merged.
//  2. Edges with the numbers of their owners are sorted by example. Read in that order, each example
//     becomes a record: its class, its priority, its place in the order of the ids, and its owners.
//  3. Records are sorted: that is the order of the pass.
//
// The pass then reads the records. Memory holds two sorters, the state of each owner (its id and
// room, some 20 bytes for an integer id), and the examples that are kept, with their owners: about 35
// bytes for each example and 16 for each edge that is kept, while neighbourhoods are counted. Files
// take up to 30 bytes for each edge of integer ids.
package ondisk

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"runtime/debug"
	"sync"

	"minsep/internal/ownergraph"
	"minsep/internal/stream"
)

// DefaultInMemory is the number of edges that a [Bounder] holds in memory. With integer ids they
// take some 3 GiB to bound.
const DefaultInMemory = 1 << 26

// Bounder takes the edges of a graph, and bounds it. Set the exported fields before the first call,
// and Close it.
type Bounder struct {
	Bound            ownergraph.Bound
	Key              stream.Key // of [ownergraph.PriorityPurpose]
	Examples, Owners ownergraph.IDType
	InMemory         int64                                          // edges that are held in memory; 0 means DefaultInMemory. With pools all are
	Dir              string                                         // of temporary files; empty means the system's
	Progress         func(doing, unit string, done, expected int64) // is told of every part of the work; nil for nobody

	mu      sync.Mutex
	held    *ownergraph.Builder // nil once the edges go to files
	edges   int64
	byOwner sorter // records of an edge: the owner, the example
}

// Add adds a batch of edges of the types of the bounder, which it copies. Several goroutines may
// add at once.
func (b *Bounder) Add(e *ownergraph.Edges) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.edges == 0 {
		b.held = ownergraph.NewBuilder(b.Examples, b.Owners)
	}
	b.edges += int64(e.Len())
	if b.held != nil && (b.edges <= b.inMemory() || b.Bound.Pools > 0) {
		return b.held.Add(e)
	}
	if held := b.held; held != nil {
		b.held, b.byOwner = nil, b.sorter()
		if err := held.Drain(b.spill); err != nil {
			return b.fault(err)
		}
	}
	return b.fault(b.spill(e))
}

func (b *Bounder) inMemory() int64 { return cmp.Or(b.InMemory, DefaultInMemory) }

// spill gives edges to the first sort.
func (b *Bounder) spill(e *ownergraph.Edges) error {
	var record []byte
	for i := range e.Len() {
		record = e.Examples.AppendSortable(e.Owners.AppendSortable(record[:0], i), i)
		if err := b.byOwner.add(record); err != nil {
			return err
		}
	}
	return nil
}

// Close removes all files.
func (b *Bounder) Close() error { return b.byOwner.Close() }

// Bounded bounds the graph of the edges that were added. It is called once, after the last of them.
// The graph of a result that went through files has the kept examples only, and all owners. It
// returns [ownergraph.ErrTooLarge] for 2^32-1 owners, or edges of kept examples, or more.
func (b *Bounder) Bounded(ctx context.Context) (*ownergraph.Bounded, error) {
	if b.Progress == nil {
		b.Progress = func(string, string, int64, int64) {}
	}
	if b.edges == 0 {
		b.held = ownergraph.NewBuilder(b.Examples, b.Owners)
	}
	if b.held != nil {
		b.Progress("bounding in memory", "", 0, 0)
		graph, err := b.held.Graph()
		if err != nil {
			return nil, err
		}
		return b.Bound.Greedy(graph, b.Key)
	}
	if err := b.Bound.Validate(); err != nil {
		return nil, err
	}
	all, err := b.inOrder(ctx)
	defer func() { all.Close() }()
	if err != nil {
		return nil, b.fault(err)
	}
	debug.FreeOSMemory() // the memory of the next part is added to that in use, not to that of before
	kept, places, err := b.pass(ctx, all)
	if err != nil {
		return nil, err
	}
	return kept, b.byID(ctx, all, kept, places)
}

// Spilled says whether the edges went to files.
func (b *Bounder) Spilled() bool { return b.edges > 0 && b.held == nil }

// fault says how much the temporary files take, if err is not nil.
func (b *Bounder) fault(err error) error {
	if err == nil || errors.Is(err, ownergraph.ErrTooLarge) || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return fmt.Errorf(
		"bounding a graph of %d edges through temporary files, which take about %d bytes for each edge: %w",
		b.edges,
		edgeBytes,
		err,
	)
}

const edgeBytes = 30

package graphio

import (
	"cmp"
	"context"
	"runtime"
	"sync"
	"sync/atomic"

	"minsep/sampling/ownergraph"
)

// OwnEdges returns the edges of the batch: in a graph of single owners, each example owns itself.
func (b *Batch) OwnEdges() *ownergraph.Edges {
	if b.SingleOwner {
		b.Owners.Reset(b.Examples.Type)
		b.Owners.AppendAll(&b.Examples)
	}
	return &b.Edges
}

// Load reads the graph into memory, from fs, or where it was opened if that is nil, on all
// processors. It calls seen, unless that is nil, with every batch before it takes its edges, in
// several goroutines at once. It returns the faults of the first split that has any,
// [ownergraph.ErrTooLarge], or ctx's error.
func (s *Source) Load(ctx context.Context, fs FS, seen func(*Batch)) (*ownergraph.Graph, error) {
	if fs == nil {
		fs = s.fs
	}
	edges := ownergraph.NewBuilder(s.ExampleType, s.OwnerType)
	var units atomic.Int64
	take := func(b *Batch) error {
		if units.Add(b.units) > mostUnits(s.Bytes) {
			return dense(s.Bytes)
		}
		if seen != nil {
			seen(b)
		}
		return edges.Add(b.OwnEdges())
	}
	var next atomic.Int64
	errs := make([]error, len(s.splits))
	var readers sync.WaitGroup
	for range min(len(s.splits), runtime.GOMAXPROCS(0)) {
		readers.Go(func() {
			for {
				i := int(next.Add(1) - 1)
				if i >= len(s.splits) {
					return
				}
				if errs[i] = s.splits[i].Read(ctx, fs, take); errs[i] != nil {
					next.Store(int64(len(s.splits))) // those before it are being read
				}
			}
		})
	}
	readers.Wait()
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	return edges.Graph()
}

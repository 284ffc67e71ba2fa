package graphio

import (
	"cmp"
	"context"
	"sync/atomic"

	"minsep/internal/ownergraph"
	"minsep/internal/parallel"
)

// OwnEdges returns the edges of the batch: in a graph of single owners, each example owns itself.
func (b *Batch) OwnEdges() *ownergraph.Edges {
	if b.SingleOwner {
		b.Owners.Reset(b.Examples.Type)
		b.Owners.AppendAll(&b.Examples)
	}
	return &b.Edges
}

// Load reads the graph into memory, as [Source.Each] does.
func (s *Source) Load(ctx context.Context) (*ownergraph.Graph, error) {
	edges := ownergraph.NewBuilder(s.ExampleType, s.OwnerType)
	if err := s.Each(ctx, nil, func(b *Batch) error { return edges.Add(b.OwnEdges()) }); err != nil {
		return nil, err
	}
	return edges.Graph()
}

// Each reads the graph, from fs, or where it was opened if that is nil, on all processors. It calls
// take with every batch, in several goroutines at once, until one fails. It returns the faults of
// the first split that has any, the error of take, or ctx's error.
func (s *Source) Each(ctx context.Context, fs FS, take func(*Batch) error) error {
	if fs == nil {
		fs = s.fs
	}
	var units atomic.Int64
	checked := func(b *Batch) error {
		if units.Add(b.units) > mostUnits(s.Bytes) {
			return dense(s.Bytes)
		}
		return take(b)
	}
	errs := parallel.Each(len(s.splits), 0, func(i int) error { return s.splits[i].Read(ctx, fs, checked) })
	return cmp.Or(errs...)
}

package graphio

import (
	"cmp"
	"context"

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

// Load reads the graph into memory, on all processors. It returns the faults of the first file that
// has any, or ctx's error.
func (s *Source) Load(ctx context.Context) (*ownergraph.Graph, error) {
	edges := ownergraph.NewBuilder(s.ExampleType, s.OwnerType)
	add := func(b *Batch) error { return edges.Add(b.OwnEdges()) }
	errs := parallel.Each(len(s.splits), 0, func(i int) error { return s.splits[i].Read(ctx, s.fs, add) })
	if err := cmp.Or(errs...); err != nil {
		return nil, err
	}
	return edges.Graph()
}

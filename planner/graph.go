package planner

import (
	"context"

	"minsep/sampling/ownergraph"
	"minsep/sampling/ownergraph/graphio"
	"minsep/sampling/stream"
)

// Populations reads a graph into memory, about 40 bytes an edge, and bounds it once for each number
// of examples per owner, which must rise. The order in which examples are considered is that of a
// public key: a run has another one, and keeps about as many.
func Populations(ctx context.Context, paths []string, read graphio.Options, perOwner []int) ([]Population, error) {
	source, err := graphio.Open(ctx, paths, read)
	if err != nil {
		return nil, err
	}
	var edges ownergraph.Edges
	edges.Reset(source.ExampleType, source.OwnerType)
	err = source.Read(ctx, func(b *graphio.Batch) error {
		for i := range b.Examples.Len() {
			edges.Examples.AppendFrom(&b.Examples, i)
			owner := &b.Owners
			if b.SingleOwner {
				owner = &b.Examples
			}
			edges.Owners.AppendFrom(owner, i)
		}
		return ctx.Err()
	})
	if err != nil {
		return nil, err
	}
	graph, err := ownergraph.New(&edges)
	if err != nil {
		return nil, err
	}
	given := int64(graph.Examples.Len())
	var list []Population
	for _, most := range perOwner {
		bound := ownergraph.Bound{MaxExamplesPerOwner: most}
		if err := bound.Validate(); err != nil {
			return nil, err
		}
		kept := int64(0)
		for _, copies := range bound.Copies(graph, stream.PublicKey("plan: bound", nil)) {
			kept += int64(copies)
		}
		list = append(list, Population{MaxPerOwner: most, Examples: kept, Given: given})
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return list, nil
}

// PerOwner are the numbers of examples per owner from 1 to most that a plan tries: all up to 4,
// then powers of two, and most.
func PerOwner(most int) (list []int) {
	for k := 1; k < most; {
		list = append(list, k)
		if k < 4 {
			k++
		} else {
			k *= 2
		}
	}
	return append(list, most)
}

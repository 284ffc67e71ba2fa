package planner

import (
	"context"
	"errors"

	"minsep/internal/graphio"
	"minsep/internal/ownergraph"
	"minsep/internal/stream"
)

// Load reads a graph into memory, about 40 bytes an edge. A warning says what is odd about it, see [graphio.Source.Warnings]; it is nil
// where nothing is.
func Load(
	ctx context.Context,
	paths []string,
	read graphio.Options,
) (graph *ownergraph.Graph, warning, err error) {
	source, err := graphio.Open(ctx, paths, read)
	if err != nil {
		return nil, nil, err
	}
	if graph, err = source.Load(ctx); err != nil {
		return nil, nil, err
	}
	for _, odd := range source.Warnings(ctx, graph.Given(), graph.OddIDs()) {
		warning = errors.Join(warning, odd)
	}
	return graph, warning, nil
}

// Data bounds a graph once for each number of examples per owner, which must rise. Where examples
// have several owners, it also makes the pools of so many periods of rotation as a function of the
// examples that a bound of one per owner keeps. The order in which examples are considered follows
// from a public key: a run has another one, and keeps about as many.
func Data(
	ctx context.Context,
	graph *ownergraph.Graph,
	perOwner []int,
	periods func(kept int64) int,
) (list []Population, pools *Pools, err error) {
	list, err = populations(ctx, graph, perOwner)
	if err != nil {
		return nil, nil, err
	}
	number := periods(list[0].Examples)
	if number < 1 || !Shared(graph) {
		return list, nil, nil
	}
	pools, err = poolsOf(ctx, graph, min(number, mostPools))
	return list, pools, err
}

func populations(ctx context.Context, graph *ownergraph.Graph, perOwner []int) ([]Population, error) {
	given := int64(graph.Examples.Len())
	var list []Population
	for _, most := range perOwner {
		bound := ownergraph.Bound{MaxExamplesPerOwner: most}
		if err := bound.Validate(); err != nil {
			return nil, err
		}
		p := Population{MaxPerOwner: most, Given: given, GivenOwners: int64(graph.Owners.Len())}
		seen, shared := make([]bool, graph.Owners.Len()), false
		for example, copies := range bound.Copies(graph, stream.PublicKey("plan: bound", nil)) {
			p.Examples += int64(copies)
			owners := graph.OwnersOf.At(example)
			shared = shared || copies > 1 || copies > 0 && len(owners) > 1
			for _, owner := range owners {
				if copies > 0 && !seen[owner] {
					seen[owner] = true
					p.Protected++
				}
			}
		}
		if !shared {
			p.Owners = p.Protected
		}
		list = append(list, p)
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
	}
	return list, nil
}

// PerOwner returns the numbers of examples per owner, from 1 to most, that a plan tries: all up to
// 4, then powers of two, and most.
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

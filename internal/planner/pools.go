package planner

import (
	"context"

	"minsep/internal/ownergraph"
	"minsep/internal/stream"
	"minsep/mechanism"
	"minsep/sampling"
)

// Pools are the pools of a graph for rotation, where some examples have several owners: an
// owner has at most one example in each.
type Pools struct {
	Size     int64   `json:"size"`     // examples of each pool, at least 1
	Distinct []int64 `json:"distinct"` // examples in the first pool, in the first two, …: each counted once
	Given    int64   `json:"given"`    // examples before bounding, at least as many as Distinct
}

// Shared reports whether an example of a graph has several owners.
func Shared(graph *ownergraph.Graph) bool {
	for e := range graph.Examples.Len() {
		if len(graph.OwnersOf.At(e)) > 1 {
			return true
		}
	}
	return false
}

// poolsOf makes a number of pools of a graph, or returns nil if one of them would be empty. The
// order of examples follows from a public key, as in [Data].
func poolsOf(ctx context.Context, graph *ownergraph.Graph, number int) (*Pools, error) {
	bound := ownergraph.Bound{MaxExamplesPerOwner: 1, Pools: number}
	bounded, err := bound.Greedy(graph, stream.PublicKey("plan: bound", nil))
	if err != nil {
		return nil, err
	}
	c := bounded.Pools.Coverage()
	if c.Size < 1 {
		return nil, ctx.Err()
	}
	return &Pools{Size: c.Size, Distinct: c.Distinct, Given: int64(graph.Examples.Len())}, ctx.Err()
}

// population is a pool as the data that takes part at a time.
func (p *Pools) population() Population {
	return Population{MaxPerOwner: 1, Examples: p.Size, Given: p.Given}
}

// rotation is a setting's share of pools.
type rotation struct {
	pools   *Pools
	period  int // steps that a pool serves
	periods int
}

// number returns the number of pools that serve the run.
func (r *rotation) number() int { return min(r.periods, len(r.pools.Distinct)) }

// distinct returns the number of examples that are in any of these pools.
func (r *rotation) distinct() int64 { return r.pools.Distinct[r.number()-1] }

// use fills in the figures of the data that a row uses.
func (r *rotation) use(row *Row) {
	// A short run does not come to all pools, and uses the data of the pools that serve.
	row.Pools, row.Examples = r.number(), r.distinct()
	row.Kept = float64(row.Examples) / float64(r.pools.Given)
}

// rotationPart are the banded strategies of at most a period, and independent noise, which is
// proven without samples.
func rotationPart(ctx context.Context, p *part) error {
	scheme := p.with("rotation", 0)
	if _, err := p.evaluate(ctx, scheme, p.workload(mechanism.KindIdentity)); err != nil {
		return err
	}
	high := min(p.rotation.period, p.mostBands())
	for _, kind := range []string{mechanism.KindBandedToeplitz, mechanism.KindBSR} {
		start := p.start(high)
		if best := latest(p.rows, "rotation", mechanism.KindBandedToeplitz); best != nil {
			start = best.Bands
		}
		if _, err := p.climb(ctx, start, 2, high, func(bands int) (sampling.Params, mechanism.Params) {
			return scheme, p.banded(kind, bands, 0)
		}); err != nil {
			return err
		}
	}
	return p.finish(ctx, "rotation", high, func(int) sampling.Params { return scheme })
}

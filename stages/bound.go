package stages

import (
	"fmt"

	"minsep/internal/param"
	"minsep/sampling/ownergraph"
	"minsep/sampling/ownergraph/graphio"
)

// Bound bounds the contribution of each owner: graph in, run/bounded out.
type Bound struct {
	Graph []string        // files, folders and patterns
	Read  graphio.Options // how to read them
	ownergraph.Bound

	// The fields below do not change the result.

	Buckets int // of the shuffles; 0 for as many as the size calls for
	Rounds  int // before one worker finishes; 0 for as many as the size calls for

	// EdgesInMemory is the number of edges that a process holds in memory where it bounds the graph
	// without a job, and beyond which they go through temporary files; 0 for
	// ondisk.DefaultInMemory.
	EdgesInMemory int64

	// Stamp is the graph's stamp ([graphio.Source.Stamp]) when it was looked at before. Another one
	// is a fault. "" for any.
	Stamp string
}

// maxBuckets is how many buckets a shuffle may have: the transforms number them by three bytes,
// package packed, which this package does not know. Each takes memory of its own.
const maxBuckets = 1 << 24

// Validate reports every fault that can be seen without the graph.
func (b Bound) Validate() error {
	c := param.Checker{Package: "stages"}
	c.Require(len(b.Graph) > 0, "graph", "(none)", "must name at least one file, folder or pattern")
	c.Add(b.Bound.Validate())
	c.Add(b.Read.Validate())
	c.Require(b.Buckets >= 0 && b.Buckets <= maxBuckets, "buckets", b.Buckets, fmt.Sprintf("must be 1 to %d", maxBuckets))
	c.Require(b.Rounds >= 0, "rounds", b.Rounds, "must be at least 1")
	c.Require(b.EdgesInMemory >= 0, "edges in memory", b.EdgesInMemory, "must be at least 0")
	return c.Err()
}

package stages

import (
	"math"

	"minsep/internal/graphio"
	"minsep/internal/manifest"
	"minsep/internal/ownergraph"
	"minsep/internal/param"
	"minsep/sampling"
)

// Bound bounds the contribution of each owner. It reads a graph, and leaves run/bounded.
type Bound struct {
	Graph []string        // files, folders and patterns
	Read  graphio.Options // how to read them
	ownergraph.Bound

	// The fields below do not change the result.

	// EdgesInMemory is the number of edges that are held in memory, and beyond which they go through
	// temporary files; 0 for ondisk.DefaultInMemory.
	EdgesInMemory int64 `flag:"edges-in-memory" help:"hold at most this many edges in memory, at 90 bytes each; a larger graph goes through files in --work-dir and in the run directory; does not change the result"`

	// Stamp is the graph's stamp ([graphio.Source.Stamp]) when it was looked at before. Another one
	// is a fault. "" for any.
	Stamp string
}

// Validate reports every fault that can be seen without the graph.
func (b Bound) Validate() error {
	c := param.Checker{}
	c.Require(len(b.Graph) > 0, "graph", "(none)", "must name at least one file, folder or pattern")
	c.Add(b.Bound.Validate())
	c.Add(b.Read.Validate())
	c.Requiref(
		b.EdgesInMemory >= 0 && b.EdgesInMemory <= math.MaxUint32,
		"edges in memory",
		b.EdgesInMemory,
		"must be 0 to %d", uint32(math.MaxUint32),
	)
	return c.Err()
}

// boundStage is the bound in plans, run directories and inspections.
var boundStage = Stage{
	Name:     "bound",
	Group:    "bound",
	Results:  []string{manifest.BoundedFolder},
	Formats:  []string{manifest.BoundedFormat, manifest.BoundedPoolsFormat},
	Reads:    []string{"graph", "bound", "scheme", "inputs.graph"},
	in:       func(p Plan) bool { return p.Graph != nil },
	faults:   func(p Plan) error { return BoundOf(p).Validate() },
	estimate: func(Plan) PlanEstimate { return PlanEstimate{Files: 1} },
}

// PlanGraph says which graph to read, and how.
type PlanGraph struct {
	Paths []string `json:"paths,omitempty" decides:"nothing"` // files, folders and patterns
	graphio.Options

	stamp string // of the graph that was hashed: the one that is to be read
}

// BoundOf returns the bound of a plan with a graph. For rotation it has, by default, a pool for
// each period.
func BoundOf(p Plan) Bound {
	b := Bound{Graph: p.Graph.Paths, Read: p.Graph.Options, Stamp: p.Graph.stamp}
	if p.Bound != nil {
		b.Bound = *p.Bound
	}
	if s := p.Scheme; s.Kind().Pools && b.Pools == 0 && s.EpochSteps > 0 && s.Steps > 0 { // a pool for each period
		b.Pools = min(sampling.Rotation{Steps: s.Steps, EpochSteps: s.EpochSteps}.Periods(), ownergraph.MaxPools)
	}
	return b
}

// SetStamp sets the graph that must be read, by [graphio.Source.Stamp]. Any other is a fault.
func (g *PlanGraph) SetStamp(stamp string) { g.stamp = stamp }

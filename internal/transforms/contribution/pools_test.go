package contribution_test

import (
	"math/rand/v2"
	"testing"

	"minsep/internal/ownergraph"

	//lint:ignore SA1019 it is the default runner
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"pgregory.net/rapid"
)

// TestPoolsEqualReference makes pools of random graphs, and compares rows and coverage with the
// reference in memory, for any number of buckets, memory of sorting and cut of the rows.
func TestPoolsEqualReference(t *testing.T) {
	c, key := newConfig(t)
	rapid.Check(t, func(t *rapid.T) {
		types := rapid.SampledFrom([]ownergraph.IDType{ownergraph.Int64, ownergraph.String})
		c.Examples, c.Owners = types.Draw(t, "examples' type"), types.Draw(t, "owners' type")
		c.Bound = ownergraph.Bound{
			MaxExamplesPerOwner: 1,
			Order:               rapid.SampledFrom([]ownergraph.Order{ownergraph.FewestOwners, ownergraph.Random}).Draw(t, "order"),
			Pools:               rapid.IntRange(1, 9).Draw(t, "pools"),
		}
		c.Buckets = rapid.IntRange(1, 5).Draw(t, "buckets")
		c.SortMemory = rapid.SampledFrom([]int{0, 1}).Draw(t, "sort memory")
		c.RowsPerPart = rapid.SampledFrom([]int{0, 1, 7}).Draw(t, "rows of a part")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		e := graph(rng, c.Examples, c.Owners, rapid.IntRange(1, 60).Draw(t, "examples"), rapid.IntRange(1, 30).Draw(t, "owners"), rapid.IntRange(0, 150).Draw(t, "edges"))
		same(t, direct.Execute, c, key, e, encode(t, e, rapid.IntRange(1, 50).Draw(t, "edges of a chunk")))
	})
}

// TestPoolsOnPrism makes pools on another runner, of a graph with a hot owner and equal edges.
func TestPoolsOnPrism(t *testing.T) {
	c, key := newConfig(t)
	c.Bound = ownergraph.Bound{MaxExamplesPerOwner: 1, Pools: 6}
	c.Owners, c.Buckets = ownergraph.String, 7
	e := graph(rand.New(rand.NewPCG(1, 1)), c.Examples, c.Owners, 300, 60, 900)
	for i := range int64(100) {
		e.Examples.AppendInt(i)
		e.Owners.AppendBytes([]byte("hot"))
	}
	for _, run := range []execute{direct.Execute, prism.Execute} {
		same(t, run, c, key, e, encode(t, e, 100))
	}
}

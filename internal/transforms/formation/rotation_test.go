package formation_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"minsep/internal/must"
	"minsep/internal/ownergraph"
	"minsep/internal/stream"
	"minsep/internal/transforms/formation"
	"minsep/internal/transforms/keyref"
	"minsep/sampling"
)

// poolsOf bounds the graph of a random table to pools.
func poolsOf(t *testing.T, tb table, pools int) table {
	t.Helper()
	var edges ownergraph.Edges
	edges.Reset(ownergraph.String, ownergraph.Int64)
	for row := range int(tb.n) {
		for j, end := tb.rows.OwnersOf(row); j < end; j++ {
			edges.Examples.AppendFrom(&tb.rows.Examples, row)
			edges.Owners.AppendFrom(&tb.rows.Owners, j)
		}
	}
	g := must.Get(ownergraph.New(&edges))(t)
	b := must.Get(ownergraph.Bound{MaxExamplesPerOwner: 1, Pools: pools}.Greedy(g, stream.PublicKey("test", nil)))(t)
	return table{n: b.Summary.Kept, rows: b.Rows(), pools: pools}
}

// TestRotationEqualsTheSequentialReference forms batches of pools in every way, and compares them
// with batches by the definition: of each period those in its pool, and no owner twice.
func TestRotationEqualsTheSequentialReference(t *testing.T) {
	tb := poolsOf(t, randomTable(4, 200, 60), 3)
	s := sampling.Rotation{Steps: 33, EpochSteps: 5} // more periods than pools, and one that is cut
	spec := sampling.Spec{Rotation: &s}
	src := stream.NewSource(keyOf(t, spec, "participations"))
	want := make([][]int64, s.Steps)
	for row := range tb.n {
		for _, step := range s.Process().Draw(nil, src.Stream(tb.rows.Examples.Address(src, int(row), 0)), row) {
			if slices.Contains(tb.rows.PoolsOf(int(row)), uint32(int(step)/5%3)) {
				want[step] = append(want[step], row)
			}
		}
	}
	base := form(t, spec, tb, plain)
	if got := read(t, base); fmt.Sprint(got) != fmt.Sprint(want) || len(slices.Concat(want...)) == 0 {
		t.Fatalf("formed %v, want %v", got, want)
	}
	for period := 0; period*s.EpochSteps < s.Steps; period++ {
		owners := map[int64]bool{}
		for _, row := range slices.Concat(want[period*s.EpochSteps : min(s.Steps, (period+1)*s.EpochSteps)]...) {
			for j, end := tb.rows.OwnersOf(int(row)); j < end; j++ {
				if u := tb.rows.Owners.Int(j); owners[u] {
					t.Fatalf("owner %d takes part twice in period %d", u, period)
				} else {
					owners[u] = true
				}
			}
		}
	}
	for name, h := range map[string]how{
		"prism":          {runner: "prism"},
		"shuffled":       {shuffle: 3},
		"1 shard":        {shards: 1},
		"with names":     {names: true},
		"chunks of rows": {chunk: 1},
	} {
		got := form(t, spec, tb, h)
		if content(t, got) != fmt.Sprint(want) || h.shards == 0 && !cmp.Equal(got.Index.Files, base.Index.Files) {
			t.Errorf("%s changes the batches", name)
		}
	}
}

// TestRotationNeedsPools refuses rows without pools, and pools that the table does not have.
func TestRotationNeedsPools(t *testing.T) {
	spec := sampling.Spec{Rotation: &sampling.Rotation{Steps: 9, EpochSteps: 3}}
	tb := poolsOf(t, randomTable(5, 40, 20), 4)
	tb.pools = 3
	refuses(t, "a pool too many", spec, tb, plain, "the configuration says 3 pools")
	without := randomTable(5, 40, 20)
	without.pools = 3
	refuses(t, "rows without pools", spec, without, plain, "are in no pools")
	must.Fail(t, "numbered examples", "pools 2: must be at least 1 for rotation, of a table")((formation.Config{Spec: spec, Examples: 5, Pools: 2, Settings: formation.Settings{Shards: 1, IDs: formation.IDs{AreRow: true}, Key: keyref.Ref{KeyURI: keyFile}}}).Validate())
}

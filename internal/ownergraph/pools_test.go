package ownergraph_test

import (
	"cmp"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"minsep/internal/must"
	"minsep/internal/ownergraph"
	"minsep/internal/stream"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// naivePools makes pools by the words of the definition, with maps. It returns them as sets before
// and after the cut.
func naivePools(g *ownergraph.Graph, b ownergraph.Bound, key stream.Key) (before, after []map[int]bool) {
	src := stream.NewSource(key)
	used := map[int]int{}
	first := func(e, f int) int { // in the order of the bound
		class := 0
		if b.Order == ownergraph.FewestOwners {
			class = cmp.Compare(len(g.OwnersOf.At(e)), len(g.OwnersOf.At(f)))
		}
		return cmp.Or(class, cmp.Compare(g.Examples.Address(src, e, 0).Uint64(), g.Examples.Address(src, f, 0).Uint64()), cmp.Compare(e, f))
	}
	smallest := g.Examples.Len()
	for range b.Pools {
		order := make([]int, g.Examples.Len())
		for e := range order {
			order[e] = e
		}
		slices.SortFunc(order, func(e, f int) int { return cmp.Or(cmp.Compare(used[e], used[f]), first(e, f)) })
		pool, taken := map[int]bool{}, map[uint32]bool{}
		for _, e := range order {
			if !slices.ContainsFunc(g.OwnersOf.At(e), func(u uint32) bool { return taken[u] }) {
				pool[e] = true
				for _, u := range g.OwnersOf.At(e) {
					taken[u] = true
				}
			}
		}
		for e := range pool {
			used[e]++
		}
		before = append(before, pool)
		smallest = min(smallest, len(pool))
	}
	for _, pool := range before {
		order := slices.SortedFunc(maps.Keys(pool), func(e, f int) int { return cmp.Or(cmp.Compare(used[e], used[f]), first(e, f)) })
		cut := map[int]bool{}
		for i, e := range order {
			if i < smallest {
				cut[e] = true
			} else {
				used[e]--
			}
		}
		after = append(after, cut)
	}
	return before, after
}

// drawGraph is a graph of a few examples, some with many owners.
func drawGraph(t *rapid.T, typ ownergraph.IDType) *ownergraph.Graph {
	examples, owners := rapid.IntRange(1, 40).Draw(t, "examples"), rapid.IntRange(1, 20).Draw(t, "owners")
	rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
	var edges []edge
	for range rapid.IntRange(0, 120).Draw(t, "edges") {
		edges = append(edges, edge{fmt.Sprint(rng.IntN(examples) - 3), fmt.Sprint(rng.IntN(owners))})
	}
	g, err := ownergraph.New(batch(edges, typ, ownergraph.String))
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// TestPoolsEqualTheDefinition compares pools with those by the definition, and holds that of no
// owner two examples are in a pool, that no example could be added to a pool before it was cut,
// that all are of one size, and the coverage.
func TestPoolsEqualTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		g := drawGraph(t, rapid.SampledFrom([]ownergraph.IDType{ownergraph.Int64, ownergraph.String}).Draw(t, "type"))
		b := ownergraph.Bound{
			MaxExamplesPerOwner: 1,
			Order:               rapid.SampledFrom([]ownergraph.Order{ownergraph.FewestOwners, ownergraph.Random}).Draw(t, "order"),
			Pools:               rapid.IntRange(1, 12).Draw(t, "pools"),
		}
		key := stream.PublicKey("test", nil)
		got, err := b.Greedy(g, key)
		if err != nil {
			t.Fatal(err)
		}
		before, want := naivePools(g, b, key)
		coverage, distinct, in := got.Summary.Coverage, map[int]bool{}, map[int]int{}
		for i, pool := range want {
			for e := range g.Examples.Len() {
				if slices.Contains(got.Pools.Of.At(e), uint32(i)) != pool[e] {
					t.Fatalf("pool %d, example %d: want %v", i, e, pool[e])
				}
			}
			checkPool(t, g, before[i], pool)
			for e := range pool {
				distinct[e] = true
				in[e]++
			}
			if coverage.BeforeCut[i] != int64(len(before[i])) || coverage.Distinct[i] != int64(len(distinct)) || coverage.Size != int64(len(pool)) {
				t.Fatalf("pool %d: %+v", i, coverage)
			}
		}
		kept := map[uint32]int{}
		for e := range distinct {
			for _, u := range g.OwnersOf.At(e) {
				if kept[u]++; kept[u] > b.OwnerLimit() {
					t.Fatalf("owner %d has %d examples in the pools, above the limit of %d", u, kept[u], b.OwnerLimit())
				}
			}
		}
		times, never := map[int64]int64{}, int64(0)
		for e := range g.Examples.Len() {
			times[int64(in[e])]++
			if in[e] == 0 && slices.ContainsFunc(before, func(pool map[int]bool) bool { return pool[e] }) {
				never++
			}
			if got.Copies[e] != uint32(min(1, in[e])) {
				t.Fatalf("example %d in %d pools is kept %d times", e, in[e], got.Copies[e])
			}
		}
		s := got.Summary
		if diff := gocmp.Diff(ownergraph.NewHistogram(times), coverage.PerExample); diff != "" || coverage.DroppedCut != never {
			t.Fatalf("%d are in no pool since it was cut, want %d; pools per example (-want +got):\n%s", coverage.DroppedCut, never, diff)
		}
		if s.Kept != int64(len(distinct)) || s.Kept+s.DroppedOwnerFull+coverage.DroppedCut != s.Examples || len(s.Neighborhoods) > 0 {
			t.Fatalf("counts: %+v", s)
		}
		checkRows(t, got)
	})
}

// checkPool holds what must be true of any pool of a graph, before it is cut and after.
func checkPool(t *rapid.T, g *ownergraph.Graph, before, pool map[int]bool) {
	taken := map[uint32]bool{}
	for e := range before {
		for _, u := range g.OwnersOf.At(e) {
			if taken[u] {
				t.Fatalf("owner %d has two examples in a pool", u)
			}
			taken[u] = true
		}
	}
	for e := range g.Examples.Len() {
		if !before[e] && !slices.ContainsFunc(g.OwnersOf.At(e), func(u uint32) bool { return taken[u] }) {
			t.Fatalf("example %d could be added", e)
		}
	}
	for e := range pool {
		if !before[e] {
			t.Fatalf("example %d was added by the cut", e)
		}
	}
}

// TestPoolsOfARealGraph counts the distinct examples of pools of the demo's graph. They differ a
// little by key.
func TestPoolsOfARealGraph(t *testing.T) {
	g := gene2pubmed(t)
	b := must.Get(ownergraph.Bound{MaxExamplesPerOwner: 1, Pools: 20}.Greedy(g, stream.PublicKey("test", nil)))(t)
	c := b.Summary.Coverage
	t.Logf("%+v", *c)
	for pools, least := range map[int]int64{1: 17_500, 4: 60_000, 8: 90_000, 20: 178_000} {
		if got := c.Distinct[pools-1]; got < least {
			t.Errorf("%d distinct examples after %d pools, want at least %d", got, pools, least)
		}
	}
}

func TestPoolsRefuse(t *testing.T) {
	err := ownergraph.Bound{MaxExamplesPerOwner: 2, Duplicates: true, MaxNeighborhood: 3, Pools: 2}.Validate()
	for _, want := range []string{"max examples per owner 2: must be 1 with pools", "duplicates true: must be left out with pools", "max neighborhood 3: must be left out with pools"} {
		must.Fail(t, "", want)(err)
	}
	for _, pools := range []int{-1, ownergraph.MaxPools + 1} {
		if err := (ownergraph.Bound{MaxExamplesPerOwner: 1, Pools: pools}).Validate(); err == nil {
			t.Errorf("%d pools were accepted", pools)
		}
	}
}

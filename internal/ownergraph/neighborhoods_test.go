package ownergraph

import (
	"fmt"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// graphOf returns the graph with the given owners of every example.
func graphOf(t rapid.TB, owners [][]int64) *Graph {
	var e Edges
	e.Reset(Int64, Int64)
	for i, list := range owners {
		for _, u := range list {
			e.Examples.AppendInt(int64(i))
			e.Owners.AppendInt(u)
		}
	}
	g, err := New(&e)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// naiveNeighborhoods counts by the definition.
func naiveNeighborhoods(owners [][]int64, copies []uint32) []int64 {
	sizes := make([]int64, len(owners))
	for e := range owners {
		for f := range owners {
			shared := slices.ContainsFunc(owners[e], func(u int64) bool { return slices.Contains(owners[f], u) })
			if copies[e] > 0 && shared {
				sizes[e] += int64(copies[f])
			}
		}
	}
	return sizes
}

func TestNeighborhoodsEqualTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 12).Draw(t, "examples")
		several := rapid.IntRange(1, 10).Draw(t, "owners")
		most := rapid.IntRange(1, several+1).Draw(t, "owners of an example")
		hot := rapid.IntRange(0, 2).Draw(t, "owners of all examples")
		owners, copies := make([][]int64, n), make([]uint32, n)
		for e := range owners {
			few := 1
			if hot > 0 {
				few = 0
			}
			owners[e] = rapid.SliceOfN(rapid.Int64Range(0, int64(several-1)), few, most).Draw(t, "list")
			for h := range hot {
				owners[e] = append(owners[e], int64(several+h))
			}
			copies[e] = rapid.SampledFrom([]uint32{0, 1, 1, 1, 3}).Draw(t, "copies")
		}
		g, want := graphOf(t, owners), naiveNeighborhoods(owners, copies)
		if got := g.Neighborhoods(copies); !slices.Equal(got, want) {
			t.Fatalf("owners %v, copies %v: neighbourhoods %v, want %v", owners, copies, got, want)
		}
	})
}

// TestNeighborhoodsOfHotOwners: the work grows with the edges, not with an owner's examples times
// these.
func TestNeighborhoodsOfHotOwners(t *testing.T) {
	const n = 20000
	for _, hot := range []int64{1, 2, 3} {
		t.Run(fmt.Sprint(hot), func(t *testing.T) {
			owners, copies := make([][]int64, n), make([]uint32, n)
			for e := range owners {
				copies[e] = 1
				owners[e] = []int64{hot + int64(e/4)} // every four share one
				for h := range hot {
					owners[e] = append(owners[e], h)
				}
			}
			g := graphOf(t, owners)
			sizes := make([]int64, n)
			s := g.sharing(copies)
			added := s.count(sizes)
			if slices.Min(sizes) != n || slices.Max(sizes) != n {
				t.Errorf("neighbourhoods of %d to %d examples, want %d", slices.Min(sizes), slices.Max(sizes), n)
			}
			if added > g.Edges() { // every owner's list once
				t.Errorf("%d entries of lists were added, of a graph of %d edges", added, g.Edges())
			}
		})
	}
}

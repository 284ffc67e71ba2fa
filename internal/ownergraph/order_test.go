package ownergraph_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"minsep/internal/graphio"
	"minsep/internal/must"
	"minsep/internal/ownergraph"
	"minsep/internal/stream"
)

// gene2pubmed is the graph of articles and the genes that they are about.
func gene2pubmed(t testing.TB) *ownergraph.Graph {
	src := must.Get(graphio.Open(t.Context(), []string{"../../integration/testdata/gene2pubmed.tsv.gz"}, graphio.Options{}))(t)
	g := must.Get(src.Load(t.Context()))(t)
	return g
}

// TestFewestOwnersKeepsMore bounds a real graph in both orders. What is kept differs a little by
// key, and the bars are what fewest owners first keeps at least, and random at most.
func TestFewestOwnersKeepsMore(t *testing.T) {
	g := gene2pubmed(t)
	for _, c := range []struct{ most, few, random int }{{1, 19_370, 17_800}, {2, 34_800, 31_400}} {
		kept := map[ownergraph.Order]int{}
		for _, o := range []ownergraph.Order{ownergraph.FewestOwners, ownergraph.Random} {
			for _, n := range (ownergraph.Bound{MaxExamplesPerOwner: c.most, Order: o}).Copies(g, stream.PublicKey("test", nil)) {
				kept[o] += int(n)
			}
		}
		if kept[ownergraph.FewestOwners] < c.few || kept[ownergraph.Random] > c.random {
			t.Errorf("%d an owner: kept %v, want at least %d and at most %d", c.most, kept, c.few, c.random)
		}
	}
}

// TestManyOwnersAreOneClass takes an example of 300 owners before one of 255 for its priority
// alone.
func TestManyOwnersAreOneClass(t *testing.T) {
	var edges []edge
	for i := range 300 {
		edges = append(edges, edge{"wide", fmt.Sprint(i)})
		if i < ownergraph.ManyOwners {
			edges = append(edges, edge{"narrow", fmt.Sprint(i)})
		}
	}
	g := must.Get(ownergraph.New(batch(edges, ownergraph.String, ownergraph.Int64)))(t)
	taken := map[string]bool{}
	for i := range 64 {
		for e, n := range (ownergraph.Bound{MaxExamplesPerOwner: 1}).Copies(g, stream.PublicKey(fmt.Sprint(i), nil)) {
			if n > 0 {
				taken[g.Examples.Format(e)] = true
			}
		}
	}
	if len(taken) != 2 { // one of them 64 times in a row: probability 2^-63
		t.Errorf("only %v was ever taken first", taken)
	}
}

func TestOrdersAsText(t *testing.T) {
	for _, want := range []ownergraph.Order{ownergraph.FewestOwners, ownergraph.Random} {
		b := must.Get(json.Marshal(ownergraph.Bound{Order: want}))(t)
		var got ownergraph.Bound
		if err := json.Unmarshal(b, &got); err != nil || got.Order != want {
			t.Errorf("%s was read as %v: %v", b, got.Order, err)
		}
	}
	var o ownergraph.Order
	if err := o.UnmarshalText([]byte("largest")); err == nil {
		t.Error("an order of no known name was read")
	}
}

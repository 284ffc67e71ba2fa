package ownergraph_test

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"reflect"
	"slices"
	"testing"

	"minsep/internal/must"
	"minsep/internal/ownergraph"
	"minsep/internal/stream"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func testKey(t testing.TB) stream.Key {
	root := must.Get(stream.ParseRoot([]byte("a root key that only tests use..")))(t)
	return root.Key(stream.RunID{1}, [32]byte{2}, ownergraph.PriorityPurpose)
}

// edge is an edge with its ids as text.
type edge struct{ example, owner string }

// batch is the edges as ids of the given types.
func batch(edges []edge, example, owner ownergraph.IDType) *ownergraph.Edges {
	e := new(ownergraph.Edges)
	e.Reset(example, owner)
	add := func(c *ownergraph.IDs, id string) {
		if c.Type == ownergraph.String {
			c.AppendBytes([]byte(id))
			return
		}
		var v int64
		fmt.Sscan(id, &v)
		c.AppendInt(v)
	}
	for _, x := range edges {
		add(&e.Examples, x.example)
		add(&e.Owners, x.owner)
	}
	return e
}

// naive bounds by the words of the definition, with maps: the oracle of Greedy.
type naive struct {
	owners  map[string]map[string]bool // by example
	copies  map[string]int
	dropped int // for their neighbourhoods
}

func (n *naive) size(e string) (size int) {
	for f := range n.owners {
		shared := slices.ContainsFunc(slices.Collect(maps.Keys(n.owners[f])), func(u string) bool { return n.owners[e][u] })
		if shared {
			size += n.copies[f]
		}
	}
	return size
}

func naiveBound(edges []edge, typ ownergraph.IDType, b ownergraph.Bound, key stream.Key) *naive {
	n := &naive{owners: map[string]map[string]bool{}, copies: map[string]int{}}
	for _, e := range edges {
		if n.owners[e.example] == nil {
			n.owners[e.example] = map[string]bool{}
		}
		n.owners[e.example][e.owner] = true
	}
	src := stream.NewSource(key)
	priority := map[string]uint64{}
	for e := range n.owners {
		one := batch([]edge{{e, "0"}}, typ, ownergraph.String)
		priority[e] = one.Examples.Address(src, 0, 0).Uint64()
	}
	order := slices.SortedFunc(maps.Keys(n.owners), func(x, y string) int {
		if b.Order == ownergraph.FewestOwners && len(n.owners[x]) != len(n.owners[y]) {
			return cmp.Compare(len(n.owners[x]), len(n.owners[y]))
		}
		return cmp.Compare(priority[x], priority[y])
	})
	used := map[string]int{}
	for added := true; added; {
		added = false
		for _, e := range order {
			full := false
			for u := range n.owners[e] {
				full = full || used[u] == b.MaxExamplesPerOwner
			}
			if full {
				continue
			}
			for u := range n.owners[e] {
				used[u]++
			}
			n.copies[e]++
			added = true
		}
		if !b.Duplicates {
			break
		}
	}
	if b.MaxNeighborhood > 0 {
		var out []string
		for e := range n.owners {
			if n.copies[e] > 0 && n.size(e) > b.MaxNeighborhood {
				out = append(out, e)
			}
		}
		for _, e := range out {
			n.copies[e] = 0
		}
		n.dropped = len(out)
	}
	return n
}

func TestGreedyEqualsTheDefinition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		typ := rapid.SampledFrom([]ownergraph.IDType{ownergraph.Int64, ownergraph.String}).Draw(t, "type")
		b := ownergraph.Bound{
			MaxExamplesPerOwner: rapid.IntRange(1, 7).Draw(t, "k_u"),
			Duplicates:          rapid.Bool().Draw(t, "duplicates"),
			MaxNeighborhood:     rapid.SampledFrom([]int{0, 0, 1, 3, 8}).Draw(t, "k_e"),
			Order:               rapid.SampledFrom([]ownergraph.Order{ownergraph.FewestOwners, ownergraph.Random}).Draw(t, "order"),
		}
		examples, owners := rapid.IntRange(1, 40).Draw(t, "examples"), rapid.IntRange(1, 20).Draw(t, "owners")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		var edges []edge
		for range rapid.IntRange(0, 120).Draw(t, "edges") {
			edges = append(edges, edge{fmt.Sprint(rng.IntN(examples) - 3), fmt.Sprint(rng.IntN(owners))})
		}
		key := stream.PublicKey("test", nil)
		g, err := ownergraph.New(batch(edges, typ, ownergraph.String))
		if err != nil {
			t.Fatal(err)
		}
		got, err := b.Greedy(g, key)
		if err != nil {
			t.Fatal(err)
		}
		want := naiveBound(edges, typ, b, key)
		kept, copies, hist := int64(0), int64(0), map[int64]int64{}
		given, keptOwners := map[int64]int64{}, map[int64]int64{}
		for e := range g.Examples.Len() {
			id := g.Examples.Format(e)
			if int(got.Copies[e]) != want.copies[id] {
				t.Fatalf("example %s: %d copies, want %d", id, got.Copies[e], want.copies[id])
			}
			owners := int64(len(want.owners[id]))
			given[owners]++
			if c := int64(got.Copies[e]); c > 0 {
				keptOwners[owners]++
				kept, copies = kept+1, copies+c
				hist[int64(want.size(id))] += c
			}
		}
		s := got.Summary
		if s.Kept != kept || s.KeptCopies != copies || s.DroppedNeighborhood != int64(want.dropped) || s.Kept+s.DroppedOwnerFull+s.DroppedNeighborhood != s.Examples {
			t.Fatalf("counts: %+v", s)
		}
		if diff := gocmp.Diff(ownergraph.NewHistogram(hist), s.Neighborhoods); diff != "" {
			t.Fatalf("neighbourhoods (-want +got):\n%s", diff)
		}
		if diff := gocmp.Diff([]ownergraph.Histogram{ownergraph.NewHistogram(given), ownergraph.NewHistogram(keptOwners)}, []ownergraph.Histogram{s.GivenOwners, s.KeptOwners}); diff != "" {
			t.Fatalf("owners per example (-want +got):\n%s", diff)
		}
		total := int64(0)
		for _, bin := range s.KeptPerOwner {
			total += bin.Count
			if bin.Value > int64(b.MaxExamplesPerOwner) {
				t.Fatalf("an owner has %d examples, k_u = %d", bin.Value, b.MaxExamplesPerOwner)
			}
		}
		if total != s.Owners || s.Edges+s.DuplicateEdges != int64(len(edges)) {
			t.Fatalf("owners or edges were lost: %+v", s)
		}
		checkRows(t, got)
	})
}

// checkRows takes the rows through their codec and compares them with the graph.
func checkRows(t *rapid.T, b *ownergraph.Bounded) {
	buf, err := b.Rows().AppendBinary(nil)
	if err != nil {
		t.Fatal(err)
	}
	var rows ownergraph.Rows
	if err := rows.UnmarshalBinary(buf); err != nil {
		t.Fatal(err)
	}
	row := 0
	for e, c := range b.Copies {
		if c == 0 {
			continue
		}
		start, end := rows.OwnersOf(row)
		owners := b.Graph.OwnersOf.At(e)
		if rows.Examples.Compare(row, &b.Graph.Examples, e) != 0 || rows.Copies[row] != c || end-start != len(owners) {
			t.Fatalf("row %d is not example %d", row, e)
		}
		if b.Pools != nil && !slices.Equal(rows.PoolsOf(row), b.Pools.Of.At(e)) || b.Pools == nil && rows.PoolsOf(row) != nil {
			t.Fatalf("row %d is in pools %d", row, rows.PoolsOf(row))
		}
		for i, u := range owners {
			if rows.Owners.Compare(start+i, &b.Graph.Owners, int(u)) != 0 {
				t.Fatalf("row %d has another owner", row)
			}
		}
		row++
	}
	if row != rows.Len() {
		t.Fatalf("%d rows, want %d", rows.Len(), row)
	}
}

// TestBuilderGivesTheSameGraph adds the edges in batches of any size, some larger than its blocks.
func TestBuilderGivesTheSameGraph(t *testing.T) {
	rng := rand.New(rand.NewPCG(8, 2))
	var edges []edge
	for range 150_000 {
		edges = append(edges, edge{fmt.Sprint(rng.IntN(40_000)), fmt.Sprint(rng.IntN(9000))})
	}
	for _, typ := range []ownergraph.IDType{ownergraph.Int64, ownergraph.String} {
		want := must.Get(ownergraph.New(batch(edges, typ, ownergraph.String)))(t)
		b := ownergraph.NewBuilder(typ, ownergraph.String)
		for start := 0; start < len(edges); {
			end := min(len(edges), start+[]int{1, 10, 4000, 70_000}[rng.IntN(4)])
			must.Do(t, b.Add(batch(edges[start:end], typ, ownergraph.String)))
			start = end
		}
		got := must.Get(b.Graph())(t)
		if !reflect.DeepEqual(got.OwnersOf, want.OwnersOf) || got.DuplicateEdges != want.DuplicateEdges ||
			got.Examples.Len() != want.Examples.Len() || got.Owners.Format(17) != want.Owners.Format(17) {
			t.Errorf("%v: another graph", typ)
		}
	}
}

// TestInputOrderDoesNotMatter shuffles the edges and repeats some.
func TestInputOrderDoesNotMatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	var edges []edge
	for range 3000 {
		edges = append(edges, edge{fmt.Sprint(rng.IntN(900)), fmt.Sprint(rng.IntN(400))})
	}
	b := ownergraph.Bound{MaxExamplesPerOwner: 3, Duplicates: true}
	var first *ownergraph.Bounded
	for i := range 3 {
		g := must.Get(ownergraph.New(batch(edges, ownergraph.Int64, ownergraph.Int64)))(t)
		r := must.Get(b.Greedy(g, testKey(t)))(t)
		if i == 0 {
			first = r
		} else if !slices.Equal(r.Copies, first.Copies) {
			t.Error("another order of edges gives another bound")
		}
		rng.Shuffle(len(edges), func(i, j int) { edges[i], edges[j] = edges[j], edges[i] })
		edges = append(edges, edges[:50]...)
	}
	g, _ := ownergraph.New(batch(edges, ownergraph.Int64, ownergraph.Int64))
	other, _ := b.Greedy(g, stream.PublicKey("another key", nil))
	if slices.Equal(other.Copies, first.Copies) {
		t.Error("the key makes no difference")
	}
}

// TestHotGraphs bounds one owner of 20,000 examples and one example of 20,000 owners.
func TestHotGraphs(t *testing.T) {
	var edges []edge
	for i := range 20_000 {
		edges = append(edges, edge{fmt.Sprintf("e%d", i), "hot"}, edge{"wide", fmt.Sprintf("u%d", i)})
	}
	g := must.Get(ownergraph.New(batch(edges, ownergraph.String, ownergraph.String)))(t)
	r := must.Get(ownergraph.Bound{MaxExamplesPerOwner: 20_000}.Greedy(g, testKey(t)))(t)
	want := ownergraph.Histogram{{Value: 1, Count: 1}, {Value: 20_000, Count: 20_000}}
	if diff := gocmp.Diff(want, r.Summary.Neighborhoods); diff != "" {
		t.Errorf("neighbourhoods (-want +got):\n%s", diff)
	}
	r, _ = ownergraph.Bound{MaxExamplesPerOwner: 2, Duplicates: true}.Greedy(g, testKey(t))
	if r.Summary.Kept != 3 || r.Summary.KeptCopies != 4 {
		t.Errorf("k_u = 2: %+v", r.Summary)
	}
}

func TestFaults(t *testing.T) {
	var e ownergraph.Edges
	e.Examples.AppendInt(1)
	if _, err := ownergraph.New(&e); !errors.Is(err, ownergraph.ErrNoOwners) {
		t.Errorf("an example without owners: %v", err)
	}
	e.Reset(ownergraph.Int64, ownergraph.Int64)
	g, err := ownergraph.New(&e)
	if err != nil || g.Edges() != 0 {
		t.Errorf("no edges: %v", err)
	}
	if r, err := (ownergraph.Bound{MaxExamplesPerOwner: 1}).Greedy(g, testKey(t)); err != nil || r.Rows().Len() != 0 {
		t.Errorf("no edges: %v", err)
	}
	err = ownergraph.Bound{MaxNeighborhood: -1, Order: 2}.Validate()
	for _, want := range []string{"max examples per owner 0", "max neighborhood -1", "order Order(2)"} {
		must.Fail(t, "", want)(err)
	}
	if _, err := (ownergraph.Bound{}).Greedy(g, testKey(t)); err == nil {
		t.Error("k_u = 0 was accepted")
	}
}

// TestFillGoesOnFromAnyState stops the greedy pass after any prefix of its decisions and goes on
// with Fill.
func TestFillGoesOnFromAnyState(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 50 {
		const examples, owners, k = 30, 12, 3
		l := ownergraph.Lists{Starts: []uint32{0}}
		order := make([]uint32, examples)
		for e := range examples {
			order[e] = uint32(e)
			for _, u := range rng.Perm(owners)[:1+rng.IntN(3)] {
				l.Items = append(l.Items, uint32(u))
			}
			l.Starts = append(l.Starts, uint32(len(l.Items)))
		}
		fill := func(most uint32, rooms, copies []uint32) []uint32 {
			ownergraph.Fill(&l, order, rooms, copies, most)
			return copies
		}
		full := func() []uint32 { return slices.Repeat([]uint32{k}, owners) }
		want := fill(k, full(), make([]uint32, examples))
		rooms := full()
		part := fill(1, rooms, make([]uint32, examples))
		live := order[:0:0]
		for _, e := range order {
			if part[e] == 1 {
				live = append(live, e)
			}
		}
		order = live
		if got := fill(k, rooms, part); !slices.Equal(got, want) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
}

func FuzzRows(f *testing.F) {
	g, _ := ownergraph.New(batch([]edge{{"1", "a"}, {"1", "b"}, {"2", "a"}}, ownergraph.Int64, ownergraph.String))
	r, _ := ownergraph.Bound{MaxExamplesPerOwner: 2}.Greedy(g, stream.PublicKey("fuzz", nil))
	b, _ := r.Rows().AppendBinary(nil)
	f.Add(b)
	r, _ = ownergraph.Bound{MaxExamplesPerOwner: 1, Pools: 3}.Greedy(g, stream.PublicKey("fuzz", nil))
	b, _ = r.Rows().AppendBinary(nil)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) {
		var rows, back ownergraph.Rows
		if rows.UnmarshalBinary(b) != nil {
			return
		}
		again := must.Get(rows.AppendBinary(nil))(t)
		if err := back.UnmarshalBinary(again); err != nil || back.Len() != rows.Len() || back.First != rows.First || !slices.Equal(back.Pools, rows.Pools) || !slices.Equal(back.PoolEnds, rows.PoolEnds) {
			t.Errorf("%d rows came back as %d: %v", rows.Len(), back.Len(), err)
		}
	})
}

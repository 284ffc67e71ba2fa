package ondisk_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"sync"
	"testing"

	"minsep/internal/ondisk"
	"minsep/internal/ownergraph"
	"minsep/internal/stream"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func testKey(t testing.TB) stream.Key {
	root, err := stream.ParseRoot([]byte("a root key that only tests use.."))
	if err != nil {
		t.Fatal(err)
	}
	return root.Key(stream.RunID{1}, [32]byte{2}, ownergraph.PriorityPurpose)
}

// edges draws a graph: few or many owners, repeated edges, and maybe an owner of nearly all
// examples and an example of nearly all owners.
func edges(t *rapid.T, example, owner ownergraph.IDType) *ownergraph.Edges {
	n := rapid.SampledFrom([]int{0, 1, 2, 30, 300}).Draw(t, "edges")
	examples, owners := rapid.IntRange(1, 200).Draw(t, "examples"), rapid.IntRange(1, 100).Draw(t, "owners")
	hot, wide := rapid.Bool().Draw(t, "hot"), rapid.Bool().Draw(t, "wide")
	e := new(ownergraph.Edges)
	e.Reset(example, owner)
	add := func(c *ownergraph.IDs, v int) {
		if c.Type == ownergraph.String {
			c.AppendBytes(fmt.Append(nil, "id ", v*7919%1000))
		} else {
			c.AppendInt(int64(v-20) * (math.MaxInt64 / 1000))
		}
	}
	for range n {
		u, v := rapid.IntRange(0, examples-1).Draw(t, "example"), rapid.IntRange(0, owners-1).Draw(t, "owner")
		if hot && v%3 > 0 {
			v = 0
		}
		if wide && u%3 > 0 {
			u = 0
		}
		add(&e.Examples, u)
		add(&e.Owners, v)
	}
	return e
}

// bounded bounds edges by a Bounder, in batches that several goroutines add.
func bounded(ctx context.Context, b *ondisk.Bounder, e *ownergraph.Edges) (*ownergraph.Bounded, error) {
	var adding sync.WaitGroup
	errs := make([]error, 3)
	for part := range errs {
		adding.Go(func() {
			var batch ownergraph.Edges
			batch.Reset(e.Examples.Type, e.Owners.Type)
			for i := part; i < e.Len(); i += len(errs) {
				batch.AppendFrom(e, i)
				if batch.Len() == 7 || i+len(errs) >= e.Len() {
					errs[part] = errors.Join(errs[part], b.Add(&batch))
					batch.Reset(e.Examples.Type, e.Owners.Type)
				}
			}
		})
	}
	adding.Wait()
	if err := errors.Join(errs...); err != nil {
		return nil, err
	}
	return b.Bounded(ctx)
}

// TestEqualsGreedy compares the rows and the summary with the pass in memory.
func TestEqualsGreedy(t *testing.T) {
	key, dir, spilled := testKey(t), t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		types := rapid.SampledFrom([]ownergraph.IDType{ownergraph.Int64, ownergraph.String})
		example, owner := types.Draw(t, "example ids"), types.Draw(t, "owner ids")
		bound := ownergraph.Bound{
			MaxExamplesPerOwner: rapid.SampledFrom([]int{1, 2, 5, 1 << 20}).Draw(t, "k_u"),
			Duplicates:          rapid.Bool().Draw(t, "duplicates"),
			MaxNeighborhood:     rapid.SampledFrom([]int{0, 0, 1, 3, 50}).Draw(t, "k_e"),
			Order:               rapid.SampledFrom([]ownergraph.Order{ownergraph.FewestOwners, ownergraph.Random}).Draw(t, "order"),
		}
		if bound.Duplicates {
			bound.MaxExamplesPerOwner = min(bound.MaxExamplesPerOwner, 50)
		}
		if rapid.IntRange(0, 4).Draw(t, "pools") == 0 {
			bound = ownergraph.Bound{MaxExamplesPerOwner: 1, Order: bound.Order, Pools: 3}
		}
		e := edges(t, example, owner)
		graph, err := ownergraph.New(&ownergraph.Edges{Examples: e.Examples, Owners: e.Owners})
		if err != nil {
			t.Fatal(err)
		}
		want, err := bound.Greedy(graph, key)
		if err != nil {
			t.Fatal(err)
		}
		b := ondisk.Bounder{Bound: bound, Key: key, Examples: example, Owners: owner, Dir: dir, InMemory: int64(rapid.SampledFrom([]int{1, 29, 1000}).Draw(t, "in memory"))}
		defer b.Close()
		got, err := bounded(t.Context(), &b, e)
		if err != nil {
			t.Fatal(err)
		}
		if b.Spilled() != (int64(e.Len()) > b.InMemory && bound.Pools == 0) {
			t.Errorf("%d edges, %d in memory: went to files %v", e.Len(), b.InMemory, b.Spilled())
		}
		if b.Spilled() {
			spilled++
		}
		if diff := gocmp.Diff(want.Rows(), got.Rows(), gocmp.AllowUnexported(ownergraph.IDs{}), gocmp.Comparer(sameIDs)); diff != "" {
			t.Errorf("rows: %s", diff)
		}
		if diff := gocmp.Diff(want.Summary, got.Summary); diff != "" {
			t.Errorf("summary: %s", diff)
		}
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		if left, _ := os.ReadDir(dir); len(left) > 0 {
			t.Errorf("%d temporary files have names", len(left))
		}
	})
	if spilled < 10 {
		t.Errorf("only %d graphs went to files", spilled)
	}
}

func sameIDs(a, b ownergraph.IDs) bool {
	if a.Type != b.Type || a.Len() != b.Len() {
		return false
	}
	for i := range a.Len() {
		if a.Compare(i, &b, i) != 0 {
			return false
		}
	}
	return true
}

// TestManyRanges bounds a graph of enough edges for several ranges, full batches, and examples of
// one range that come before and after one another.
func TestManyRanges(t *testing.T) {
	if testing.Short() {
		t.Skip("bounds 2 million edges twice")
	}
	const n = 2_000_000
	e := new(ownergraph.Edges)
	for i := range int64(n) {
		e.Examples.AppendInt(i * 7368787 % (n / 2))
		e.Owners.AppendInt(i * 982451653 % (n / 8))
	}
	bound := ownergraph.Bound{MaxExamplesPerOwner: 2}
	b := ondisk.Bounder{Bound: bound, Key: testKey(t), InMemory: 1, Dir: t.TempDir()}
	defer b.Close()
	if err := b.Add(e); err != nil {
		t.Fatal(err)
	}
	got, err := b.Bounded(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	graph, err := ownergraph.New(e)
	if err != nil {
		t.Fatal(err)
	}
	want, err := bound.Greedy(graph, testKey(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(want.Summary, got.Summary); diff != "" {
		t.Errorf("summary: %s", diff)
	}
	if x, y := want.Rows(), got.Rows(); !sameIDs(x.Examples, y.Examples) || !sameIDs(x.Owners, y.Owners) {
		t.Error("other rows")
	}
}

// TestFaults bounds without a folder for the files, with a context that ends, and with parameters
// that break a rule.
func TestFaults(t *testing.T) {
	e := new(ownergraph.Edges)
	for i := range int64(100) {
		e.Examples.AppendInt(i)
		e.Owners.AppendInt(i % 7)
	}
	b := ondisk.Bounder{Bound: ownergraph.Bound{MaxExamplesPerOwner: 1}, InMemory: 1, Dir: "no such folder"}
	if _, err := bounded(t.Context(), &b, e); err == nil || !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no folder: %v", err)
	}
	ended, end := context.WithCancel(t.Context())
	end()
	b = ondisk.Bounder{Bound: ownergraph.Bound{MaxExamplesPerOwner: 1}, InMemory: 1, Dir: t.TempDir()}
	defer b.Close()
	if _, err := bounded(ended, &b, e); !errors.Is(err, context.Canceled) {
		t.Errorf("ended: %v", err)
	}
	b = ondisk.Bounder{InMemory: 1, Dir: t.TempDir()}
	defer b.Close()
	var fault *ownergraph.ParamError
	if _, err := bounded(t.Context(), &b, e); !errors.As(err, &fault) {
		t.Errorf("k_u 0: %v", err)
	}
}

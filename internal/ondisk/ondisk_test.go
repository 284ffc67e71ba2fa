package ondisk_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"sync"
	"testing"

	"minsep/internal/must"
	"minsep/internal/ondisk"
	"minsep/internal/ownergraph"
	"minsep/internal/param"
	"minsep/internal/stream"

	gocmp "github.com/google/go-cmp/cmp"
)

func testKey(t testing.TB) stream.Key {
	root := must.Get(stream.ParseRoot([]byte("a root key that only tests use..")))(t)
	return root.Key(stream.RunID{1}, [32]byte{2}, ownergraph.PriorityPurpose)
}

// edges draws a graph: few or many owners, repeated edges, and maybe an owner of nearly all
// examples and an example of nearly all owners.
func edges(rng *rand.Rand, n int, example, owner ownergraph.IDType) *ownergraph.Edges {
	examples, owners := 1+rng.IntN(200), 1+rng.IntN(100)
	hot, wide := rng.IntN(2) == 0, rng.IntN(2) == 0
	e := new(ownergraph.Edges)
	e.Reset(example, owner)
	add := func(c *ownergraph.IDs, v int) {
		switch {
		case c.Type == ownergraph.Int64:
			c.AppendInt(int64(v-20) * (math.MaxInt64 / 1000))
		case v%5 == 0: // zero bytes, and ids that begin others
			c.AppendBytes(append([]byte{'i'}, make([]byte, v/5)...))
		default:
			c.AppendBytes(fmt.Append(nil, "i\x00\x01", v*7919%1000))
		}
	}
	for range n {
		u, v := rng.IntN(examples), rng.IntN(owners)
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

// TestEqualsGreedy compares the rows and the summary with the pass in memory, for 120 graphs of fixed
// seeds, each without and with pools, held in memory and not.
func TestEqualsGreedy(t *testing.T) {
	key, dir := testKey(t), t.TempDir()
	types := []ownergraph.IDType{ownergraph.Int64, ownergraph.String, ownergraph.Bytes}
	for seed := range uint64(120) {
		rng := rand.New(rand.NewPCG(seed, 3))
		pick := func(of ...int) int { return of[rng.IntN(len(of))] }
		n := pick(0, 1, 2, 30, 300)
		e := edges(rng, n, types[rng.IntN(3)], types[rng.IntN(3)])
		plain := ownergraph.Bound{
			MaxExamplesPerOwner: pick(1, 2, 5, 50),
			Duplicates:          rng.IntN(2) == 0,
			MaxNeighborhood:     pick(0, 0, 1, 3, 50),
			Order:               ownergraph.Order(rng.IntN(2)),
		}
		pools := ownergraph.Bound{MaxExamplesPerOwner: 1, Order: plain.Order, Pools: 3}
		for _, bound := range []ownergraph.Bound{plain, pools} {
			graph := must.Get(ownergraph.New(&ownergraph.Edges{Examples: e.Examples, Owners: e.Owners}))(t)
			want := must.Get(bound.Greedy(graph, key))(t)
			for _, held := range []int64{1, 29, 1000} {
				about := fmt.Sprintf("seed %d, %d edges, %d in memory, %+v", seed, n, held, bound)
				b := ondisk.Bounder{Bound: bound, Key: key, Examples: e.Examples.Type, Owners: e.Owners.Type, Dir: dir, InMemory: held}
				got, err := bounded(t.Context(), &b, e)
				if err != nil {
					t.Fatalf("%s: %v", about, err)
				}
				if b.Spilled() != (int64(n) > held && bound.Pools == 0) {
					t.Errorf("%s: went to files %v", about, b.Spilled())
				}
				if diff := gocmp.Diff(want.Rows(), got.Rows(), gocmp.AllowUnexported(ownergraph.IDs{}), gocmp.Comparer(sameIDs)); diff != "" {
					t.Errorf("%s: rows: %s", about, diff)
				}
				if diff := gocmp.Diff(want.Summary, got.Summary); diff != "" {
					t.Errorf("%s: summary: %s", about, diff)
				}
				if err := b.Close(); err != nil {
					t.Error(err)
				}
			}
		}
	}
	if left, _ := os.ReadDir(dir); len(left) > 0 {
		t.Errorf("%d temporary files have names", len(left))
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

// TestManyRuns bounds a graph of enough edges for several runs of each sort, and full batches.
func TestManyRuns(t *testing.T) {
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
	must.Do(t, b.Add(e))
	got := must.Get(b.Bounded(t.Context()))(t)
	graph := must.Get(ownergraph.New(e))(t)
	want := must.Get(bound.Greedy(graph, testKey(t)))(t)
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
	var fault *param.Error
	if _, err := bounded(t.Context(), &b, e); !errors.As(err, &fault) {
		t.Errorf("k_u 0: %v", err)
	}
}

package contribution_test

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"minsep/internal/ownergraph"
	"minsep/internal/stream"
	"minsep/internal/transforms/contribution"
	"minsep/internal/transforms/progress"

	//lint:ignore SA1019 the local default: it shuffles chunks several times faster than Prism
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct"
)

// chain returns a graph in which each example shares an owner with the next in the order of
// priority, so that each waits for the one before: the rounds decide two of them at a time. Nobody
// can make such a graph without the key.
func chain(key stream.Key, n int) *ownergraph.Edges {
	var ids ownergraph.IDs
	for i := range n {
		ids.AppendInt(int64(i))
	}
	src := stream.NewSource(key)
	order := make([]int, n)
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int {
		return cmp.Compare(ids.Address(src, a, 0).Uint64(), ids.Address(src, b, 0).Uint64())
	})
	e := new(ownergraph.Edges)
	for i, id := range order {
		for _, owner := range []int{i, i + 1} {
			e.Examples.AppendInt(int64(id))
			e.Owners.AppendInt(int64(owner))
		}
	}
	return e
}

// TestMoreRoundsThanPlanned bounds a graph that needs thousands of rounds, of which some are made:
// the worker that finishes goes on, through files.
func TestMoreRoundsThanPlanned(t *testing.T) {
	c, key := newConfig(t)
	const n = 5000
	e := chain(key, n)
	for _, b := range []ownergraph.Bound{{MaxExamplesPerOwner: 1}, {MaxExamplesPerOwner: 3, Duplicates: true}} {
		for _, rounds := range []int{0, 2, 7} {
			c.Bound, c.Rounds, c.SortMemory, c.Buckets, c.TempDir = b, rounds, 20_000, 3, t.TempDir()
			progress.Reset()
			summary := same(t, direct.Execute, c, key, e, encode(t, e, 500))
			if b.MaxExamplesPerOwner == 1 && summary.Kept != n/2 {
				t.Errorf("%d examples of the chain are kept", summary.Kept)
			}
			left := int64(0)
			for _, d := range progress.Details() {
				if d.Name == fmt.Sprintf("bytes shuffled: verdicts after round %d", rounds) {
					left = d.Total
				}
			}
			if left < int64(c.SortMemory) {
				t.Errorf("%d rounds: only %d bytes of verdicts were left to finish", rounds, left)
			}
		}
	}
}

// TestHotOwnersKeptInFull bounds nothing, so that owners of thousands of examples, some of which
// share many of them, keep all: their lists are not sent about, and the neighbourhoods are exact.
func TestHotOwnersKeptInFull(t *testing.T) {
	c, key := newConfig(t)
	c.Bound, c.Buckets, c.HeavyOwner = ownergraph.Bound{MaxExamplesPerOwner: 1 << 30}, 16, 500
	var e ownergraph.Edges
	add := func(example, owner int) {
		e.Examples.AppendInt(int64(example))
		e.Owners.AppendInt(int64(owner))
	}
	const n = 6000
	for i := range n {
		add(i, i/3)
		if i < n/2 {
			add(i, -1)
		}
		if i%3 == 0 {
			add(i, -2)
		}
		if i%5 == 0 {
			add(i, -3)
		}
		add(n, i) // one wide example
	}
	listBytes := func() (lists int64) {
		progress.Reset()
		same(t, direct.Execute, c, key, &e, encode(t, &e, 1000))
		for _, d := range progress.Details() {
			if strings.HasSuffix(d.Name, ": lists") {
				lists = d.Total
			}
		}
		return lists
	}
	few := listBytes()
	c.HeavyOwner = 1 << 20
	if many := listBytes(); many < 3*few {
		t.Errorf("%d bytes of lists with heavy owners apart, %d without", few, many)
	}
}

// TestLawOfRounds compares the undecided edges after each pair of rounds with the law by which
// rounds are planned, on random graphs: with and without popular owners, and crowded, where most
// owners have many times as many examples as they keep.
func TestLawOfRounds(t *testing.T) {
	c, _ := newConfig(t)
	if err := os.WriteFile(c.KeyURI, []byte("not a secret: one for this test."), 0o600); err != nil { // the same figures each time
		t.Fatal(err)
	}
	const (
		edges = 60_000
		slack = 1.2 // a graph so small is not like all others
	)
	for name, g := range map[string]struct {
		width int // owners of an example
		owner func(*rand.Rand) int
	}{
		"uniform":   {2, func(rng *rand.Rand) int { return rng.IntN(edges / 8) }},
		"power law": {2, func(rng *rand.Rand) int { return int(edges / 8 * math.Pow(rng.Float64(), 3)) }},
		"crowded":   {5, func(rng *rand.Rand) int { return int(edges / 64 * math.Pow(rng.Float64(), 3)) }},
	} {
		rng := rand.New(rand.NewPCG(6, 7))
		var e ownergraph.Edges
		for i := range edges {
			e.Examples.AppendInt(int64(i / g.width))
			e.Owners.AppendInt(int64(g.owner(rng)))
		}
		for _, k := range []int{1, 2, 8, 30} {
			c.Bound, c.Rounds = ownergraph.Bound{MaxExamplesPerOwner: k}, 8
			progress.Reset()
			if _, _, err := bound(direct.Execute, c, encode(t, &e, 5000)); err != nil {
				t.Fatal(err)
			}
			left := map[string]int64{}
			for _, d := range progress.Details() {
				left[d.Name] = d.Total
			}
			for round := 0; round <= c.Rounds; round += 2 {
				const verdictBytes = 18
				got := float64(left[fmt.Sprintf("bytes shuffled: verdicts after round %d", round)]) / verdictBytes / edges
				if law := contribution.Undecided(k, round/2); got > law*slack {
					t.Errorf("%s, %d an owner: %.3f of the edges are undecided after %d rounds, the law says %.3f", name, k, got, round, law)
				}
			}
		}
	}
}

// TestLargeHotKeys compares with the reference on a graph with an owner of a third of
// MINSEP_SCALE_EDGES edges and an example of a sixth.
func TestLargeHotKeys(t *testing.T) {
	edges, err := strconv.Atoi(os.Getenv("MINSEP_SCALE_EDGES"))
	if err != nil {
		t.Skip("set MINSEP_SCALE_EDGES, such as 6000000")
	}
	c, key := newConfig(t)
	rng := rand.New(rand.NewPCG(8, 8))
	var e ownergraph.Edges
	add := func(example, owner int) {
		e.Examples.AppendInt(int64(example))
		e.Owners.AppendInt(int64(owner))
	}
	for i := range edges / 3 {
		add(i, -1)
		add(i, rng.IntN(edges/8))
		if i%2 == 0 {
			add(-1, i)
		}
	}
	c.Edges = int64(edges)
	for _, b := range []ownergraph.Bound{{MaxExamplesPerOwner: 2}, {MaxExamplesPerOwner: 40, Duplicates: true}} {
		for _, c.Rounds = range []int{0, 4} {
			c.Bound, c.SortMemory, c.TempDir = b, 16<<20, t.TempDir()
			same(t, direct.Execute, c, key, &e, encode(t, &e, 4096))
		}
	}
}

package contribution_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"

	"minsep/internal/must"
	"minsep/internal/ownergraph"
	"minsep/internal/packed"
	"minsep/internal/param"
	"minsep/internal/stream"
	"minsep/internal/transforms/contribution"
	"minsep/internal/transforms/keyref"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/log"
	//lint:ignore SA1019 the local default: it shuffles chunks several times faster than Prism
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[keepRowsFn]())
	beam.RegisterDoFn(reflect.TypeFor[keepSummaryFn]())
}

func TestMain(m *testing.M) {
	beam.Init()
	log.SetLogger(quiet{})
	os.Exit(m.Run())
}

// quiet keeps Beam's plans out of the tests' output.
type quiet struct{}

func (quiet) Log(context.Context, log.Severity, int, string) {}

// sink is where the test's pipelines, which run in this process, leave their results.
var sink struct {
	sync.Mutex
	rows    map[uint32][]*ownergraph.Rows
	passed  int // bytes of rows that came through the runner
	summary []byte
}

type keepRowsFn struct{}

func (*keepRowsFn) ProcessElement(_ context.Context, part uint32, chunk []byte) {
	sink.Lock()
	defer sink.Unlock()
	sink.passed += len(chunk)
	err := packed.Records(chunk, func(record []byte) error {
		rows := new(ownergraph.Rows)
		sink.rows[part] = append(sink.rows[part], rows)
		return rows.UnmarshalBinary(record)
	})
	if err != nil {
		panic(err)
	}
}

type keepSummaryFn struct{}

func (*keepSummaryFn) ProcessElement(_ context.Context, summary []byte) {
	sink.Lock()
	defer sink.Unlock()
	sink.summary = summary
}

type execute = func(context.Context, *beam.Pipeline) (beam.PipelineResult, error)

// bound runs the transform and returns its rows in order and its summary.
func bound(run execute, c contribution.Config, chunks [][]byte) (*ownergraph.Rows, ownergraph.Summary, error) {
	sink.rows, sink.passed, sink.summary = map[uint32][]*ownergraph.Rows{}, 0, nil
	p, s := beam.NewPipelineWithRoot()
	var summary ownergraph.Summary
	result, err := contribution.Bound(s, c, beam.CreateList(s, chunks))
	if err != nil {
		return nil, summary, err
	}
	beam.ParDo0(s, &keepRowsFn{}, result.Rows)
	beam.ParDo0(s, &keepSummaryFn{}, result.Summary)
	if _, err := run(context.Background(), p); err != nil {
		return nil, summary, err
	}
	if err := json.Unmarshal(sink.summary, &summary); err != nil {
		return nil, summary, err
	}
	rows := new(ownergraph.Rows)
	rows.Reset(0, c.Examples, c.Owners)
	perPart := int64(c.RowsPerPart)
	if perPart == 0 {
		perPart = contribution.DefaultRowsPerPart
	}
	for part := uint32(0); len(sink.rows[part]) > 0; part++ {
		chunks := sink.rows[part]
		slices.SortFunc(chunks, func(a, b *ownergraph.Rows) int { return int(a.First - b.First) })
		for _, c := range chunks {
			for i := range c.Len() {
				if row := c.First + int64(i); row != int64(rows.Len()) || row/perPart != int64(part) {
					return nil, summary, fmt.Errorf("row %d came as number %d, in part %d", row, rows.Len(), part)
				}
				rows.AppendFrom(c, i)
			}
		}
	}
	if int64(rows.Len()) != summary.Kept {
		return nil, summary, fmt.Errorf("%d rows came back in order, and %d are kept", rows.Len(), summary.Kept)
	}
	return rows, summary, nil
}

func encode(t interface{ Fatal(...any) }, e *ownergraph.Edges, perChunk int) (chunks [][]byte) {
	var part ownergraph.Edges
	for start := 0; start < e.Len(); start += perChunk {
		part.Reset(e.Examples.Type, e.Owners.Type)
		for i := start; i < min(start+perChunk, e.Len()); i++ {
			part.AppendFrom(e, i)
		}
		b, err := part.AppendBinary(nil)
		if err != nil {
			t.Fatal(err)
		}
		chunks = append(chunks, b)
	}
	return chunks
}

// newConfig returns a configuration with a key of its own.
func newConfig(t testing.TB) (contribution.Config, stream.Key) {
	path := filepath.Join(t.TempDir(), "key")
	must.Do(t, stream.CreateKeyFile(path))
	root := must.Get(stream.ReadKeyFile(path))(t)
	c := contribution.Config{Key: keyref.Ref{KeyURI: path, RunID: stream.RunID{1}, Params: [32]byte{2}}, Bound: ownergraph.Bound{MaxExamplesPerOwner: 1}}
	return c, root.Key(c.Key.RunID, c.Key.Params, ownergraph.PriorityPurpose)
}

// same compares the transform with the reference.
func same(t interface {
	Fatal(...any)
	Fatalf(string, ...any)
}, run execute, c contribution.Config, key stream.Key, e *ownergraph.Edges, chunks [][]byte) ownergraph.Summary {
	g, err := ownergraph.New(e)
	if err != nil {
		t.Fatal(err)
	}
	want, err := c.Bound.Greedy(g, key)
	if err != nil {
		t.Fatal(err)
	}
	rows, summary, err := bound(run, c, chunks)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want.Summary, summary); diff != "" {
		t.Fatalf("summary (-reference +transform):\n%s", diff)
	}
	gotBytes, _ := rows.AppendBinary(nil)
	wantBytes, _ := want.Rows().AppendBinary(nil)
	if !slices.Equal(gotBytes, wantBytes) {
		t.Fatalf("the rows differ from the reference's")
	}
	return summary
}

// graph draws edges between so many examples and owners, some of them twice, in any order.
func graph(rng *rand.Rand, example, owner ownergraph.IDType, examples, owners, edges int) *ownergraph.Edges {
	e := new(ownergraph.Edges)
	e.Reset(example, owner)
	add := func(c *ownergraph.IDs, v int) {
		if c.Type == ownergraph.Int64 {
			c.AppendInt(int64(v) - 3)
		} else {
			c.AppendBytes([]byte(strings.Repeat("\x00", v%3) + fmt.Sprint(v)))
		}
	}
	for range edges {
		add(&e.Examples, rng.IntN(examples))
		add(&e.Owners, rng.IntN(owners))
	}
	return e
}

func TestBoundEqualsReference(t *testing.T) {
	c, key := newConfig(t)
	shared := t.TempDir()
	c.Overflow.After = 1
	rapid.Check(t, func(t *rapid.T) {
		types := rapid.SampledFrom([]ownergraph.IDType{ownergraph.Int64, ownergraph.String})
		c.Examples, c.Owners = types.Draw(t, "examples' type"), types.Draw(t, "owners' type")
		c.Bound = ownergraph.Bound{
			MaxExamplesPerOwner: rapid.IntRange(1, 7).Draw(t, "k_u"),
			Duplicates:          rapid.Bool().Draw(t, "duplicates"),
			MaxNeighborhood:     rapid.SampledFrom([]int{0, 0, 1, 3, 6}).Draw(t, "k_e"),
			Order:               rapid.SampledFrom([]ownergraph.Order{ownergraph.FewestOwners, ownergraph.Random}).Draw(t, "order"),
		}
		if rapid.IntRange(0, 3).Draw(t, "for rotation") == 0 {
			c.Bound = ownergraph.Bound{MaxExamplesPerOwner: 1, Order: c.Bound.Order, Pools: rapid.IntRange(1, 9).Draw(t, "pools")}
		}
		c.EdgesInMemory = rapid.SampledFrom([]int64{0, 1, 70}).Draw(t, "edges in memory")
		c.RowsPerPart = rapid.SampledFrom([]int{0, 1, 7}).Draw(t, "rows per part")
		c.Overflow.Dir = rapid.SampledFrom([]string{"", "", shared}).Draw(t, "shared folder")
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		e := graph(rng, c.Examples, c.Owners, rapid.IntRange(1, 60).Draw(t, "examples"), rapid.IntRange(1, 40).Draw(t, "owners"), rapid.IntRange(0, 200).Draw(t, "edges"))
		same(t, direct.Execute, c, key, e, encode(t, e, rapid.IntRange(1, 50).Draw(t, "edges a chunk")))
	})
}

// TestPrism runs a few of the same on another runner, and a graph without edges.
func TestPrism(t *testing.T) {
	c, key := newConfig(t)
	c.Owners, c.RowsPerPart, c.Overflow.Dir = ownergraph.String, 30, t.TempDir()
	e := graph(rand.New(rand.NewPCG(1, 1)), c.Examples, c.Owners, 300, 150, 900)
	for _, inMemory := range []int64{0, 100} {
		c.Bound, c.EdgesInMemory = ownergraph.Bound{MaxExamplesPerOwner: 3, Duplicates: true, MaxNeighborhood: 9}, inMemory
		same(t, prism.Execute, c, key, e, encode(t, e, 100))
		c.Bound = ownergraph.Bound{MaxExamplesPerOwner: 1, Pools: 3}
		same(t, prism.Execute, c, key, e, encode(t, e, 100))
		same(t, prism.Execute, c, key, &ownergraph.Edges{Owners: ownergraph.IDs{Type: c.Owners}}, nil)
	}
}

// TestHotOwnerAndWideExample bounds one owner of 20,000 examples and one example of 20,000 owners,
// in memory and through files.
func TestHotOwnerAndWideExample(t *testing.T) {
	c, key := newConfig(t)
	c.Examples, c.Owners, c.EdgesInMemory = ownergraph.String, ownergraph.String, 10_000
	var e ownergraph.Edges
	e.Reset(c.Examples, c.Owners)
	add := func(example, owner string) {
		e.Examples.AppendBytes([]byte(example))
		e.Owners.AppendBytes([]byte(owner))
	}
	for i := range 20_000 {
		add(fmt.Sprintf("e%d", i), "hot")
		add("wide", fmt.Sprintf("u%d", i))
		add(fmt.Sprintf("e%d", i), fmt.Sprintf("u%d", i/2))
	}
	for _, b := range []ownergraph.Bound{
		{MaxExamplesPerOwner: 2},
		{MaxExamplesPerOwner: 300, Duplicates: true, MaxNeighborhood: 1000},
		{MaxExamplesPerOwner: 20_000},
	} {
		if testing.Short() && b.MaxExamplesPerOwner == 20_000 {
			continue
		}
		c.Bound = b
		same(t, direct.Execute, c, key, &e, encode(t, &e, 3000))
	}
}

// TestOverflow has every chunk of edges and of rows go through a file.
func TestOverflow(t *testing.T) {
	for _, b := range []ownergraph.Bound{{MaxExamplesPerOwner: 2}, {MaxExamplesPerOwner: 1, Pools: 3}} {
		c, key := newConfig(t)
		c.Bound, c.RowsPerPart = b, 50
		e := graph(rand.New(rand.NewPCG(5, 2)), c.Examples, c.Owners, 2000, 1200, 4000)
		same(t, direct.Execute, c, key, e, encode(t, e, 128))
		whole := sink.passed
		c.Overflow.Dir, c.Overflow.After = t.TempDir(), 1
		same(t, direct.Execute, c, key, e, encode(t, e, 128))
		if parts := len(sink.rows); parts < 4 || sink.passed > parts*300 || sink.passed > whole/2 {
			t.Errorf("%+v: %d bytes of %d in %d parts did not go through files", b, sink.passed, whole, parts)
		}
	}
}

// TestEquivalentInputs shuffles the edges, delivers every chunk twice, and changes all that must
// not matter.
func TestEquivalentInputs(t *testing.T) {
	c, key := newConfig(t)
	c.Bound = ownergraph.Bound{MaxExamplesPerOwner: 2}
	rng := rand.New(rand.NewPCG(4, 2))
	e := graph(rng, c.Examples, c.Owners, 2000, 1200, 4000)
	summary := same(t, direct.Execute, c, key, e, encode(t, e, 128))
	first, _, _ := bound(direct.Execute, c, encode(t, e, 128))
	want, _ := first.AppendBinary(nil)

	chunks := encode(t, e, 77)
	chunks = append(chunks, chunks...)
	rng.Shuffle(len(chunks), func(i, j int) { chunks[i], chunks[j] = chunks[j], chunks[i] })
	c.EdgesInMemory, c.RowsPerPart = 100, 13
	rows, twice, err := bound(direct.Execute, c, chunks)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := rows.AppendBinary(nil); !slices.Equal(got, want) {
		t.Error("the rows depend on what must not matter")
	}
	if twice.DuplicateEdges != 4000+summary.DuplicateEdges {
		t.Errorf("%d duplicate edges, want %d", twice.DuplicateEdges, 4000+summary.DuplicateEdges)
	}
	twice.DuplicateEdges = summary.DuplicateEdges
	if diff := cmp.Diff(summary, twice); diff != "" {
		t.Errorf("summary (-once +twice):\n%s", diff)
	}
}

func TestFaults(t *testing.T) {
	bad := contribution.Config{EdgesInMemory: -1}
	p, s := beam.NewPipelineWithRoot()
	_, err := contribution.Bound(s, bad, beam.CreateList(s, [][]byte{{0}}))
	for _, want := range []string{"max examples per owner 0", "key file", "edges in memory -1"} {
		must.Fail(t, "", want)(err)
	}
	var pe *param.Error
	if !errors.As(err, &pe) {
		t.Error("the faults are not typed")
	}
	_ = p
	good, _ := newConfig(t)
	e := graph(rand.New(rand.NewPCG(1, 2)), ownergraph.String, ownergraph.Int64, 5, 5, 5)
	must.Fail(t, "string ids where integers are configured", "conflicting id types")(bound(direct.Execute, good, encode(t, e, 9)))
	must.Fail(t, "a chunk of nonsense", "malformed column of ids")(bound(direct.Execute, good, [][]byte{{77}}))
	good.Key.KeyURI = filepath.Join(t.TempDir(), "none")
	must.Fail(t, "no key", "key file")(bound(direct.Execute, good, encode(t, e, 9)))
}

package formation_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	//lint:ignore SA1019 it is the default runner
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct"
	_ "github.com/apache/beam/sdks/v2/go/pkg/beam/runners/prism"
	gocmp "github.com/google/go-cmp/cmp"

	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/ownergraph"
	"minsep/internal/stream"
	"minsep/internal/transforms/formation"
	"minsep/internal/transforms/keyref"
	"minsep/internal/transforms/manifestio"
	"minsep/sampling"
)

func init() {
	beam.Init()
}

var keyFile string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "formation")
	if err != nil {
		panic(err)
	}
	keyFile = filepath.Join(dir, "key")
	if err := os.WriteFile(keyFile, []byte("formation tests: 32 bytes of key"), 0o600); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(dir)
	os.Exit(code)
}

// how says how a test forms batches; none of it may change them.
type how struct {
	runner  string // "": direct
	shards  int    // 0: 3
	blocks  int    // 0: 1
	buckets int
	shuffle uint64 // > 0: seed of the order of input chunks
	chunk   int    // rows of an input chunk; 0: 50
	names   bool   // ids of examples are drawn too

	wrongType bool // of ids in the configuration
	twice     bool // the rows come twice
}

var plain how

// table is a test's examples: nil rows mean a range.
type table struct {
	n     int64
	rows  *ownergraph.Rows
	first int64 // number of rows' first row
	pools int   // of rows, for rotation
}

func (tb table) chunks(t testing.TB, h how) [][]byte {
	var out [][]byte
	for first := 0; first < tb.rows.Len(); first += h.chunk {
		var r ownergraph.Rows
		r.Reset(tb.first+int64(first), tb.rows.Examples.Type, tb.rows.Owners.Type)
		for i := first; i < min(first+h.chunk, tb.rows.Len()); i++ {
			r.AppendFrom(tb.rows, i)
		}
		b := must.Get(r.AppendBinary(nil))(t)
		out = append(out, b)
	}
	if h.twice {
		out = append(out, out[0])
	}
	if h.shuffle > 0 {
		rand.New(rand.NewPCG(h.shuffle, 0)).Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	}
	return out
}

// form runs the pipeline and returns the opened result.
func form(t testing.TB, spec sampling.Spec, tb table, h how) *manifest.Batches {
	t.Helper()
	b := must.Get(tryForm(t, spec, tb, h))(t)
	return b
}

func tryForm(t testing.TB, spec sampling.Spec, tb table, h how) (*manifest.Batches, error) {
	h.runner, h.shards, h.chunk = cmp.Or(h.runner, "direct"), cmp.Or(h.shards, 3), cmp.Or(h.chunk, 50)
	h.blocks = cmp.Or(h.blocks, 1)
	dir := filepath.Join(t.TempDir(), "batches")
	stage := must.Get(manifest.Begin(dir, true))(t)
	params, sum, err := manifest.Params(spec)
	must.Do(t, err)
	c := formation.Config{Spec: spec, Examples: tb.n, Pools: tb.pools}
	c.Shards, c.Blocks, c.Buckets, c.Names = h.shards, h.blocks, h.buckets, h.names
	c.Key = keyref.Ref{KeyURI: keyFile, RunID: stream.RunID{1}, Params: sum}
	if tb.rows == nil {
		c.IDs.AreRow = true
	} else if !h.wrongType {
		c.IDs.Type = tb.rows.Examples.Type
	}
	p, s := beam.NewPipelineWithRoot()
	if err := c.Validate(); err != nil {
		return nil, err
	}
	resolved, err := formation.Resolved{Config: c}.Collection(s)
	if err != nil {
		return nil, err
	}
	of := formation.Request{Params: sampling.Params{Scheme: spec.Scheme().Name()}, Settings: c.Settings}
	if spec.Owners != nil {
		of.Params.Sample = sampling.SampleOwners
	}
	if spec.Truncation != nil {
		of.Params.MaxBatchSize = spec.Truncation.MaxBatchSize
	}
	var drawn formation.Drawn
	if tb.rows == nil {
		drawn = formation.Range(s, of, resolved, tb.n)
	} else {
		drawn = formation.Table(s, of, resolved, beam.CreateList(s, tb.chunks(t, h)))
	}
	manifestio.Collect(s, dir, "files.json", drawn.Write(s, dir))
	if _, err := beam.Run(context.Background(), h.runner, p); err != nil {
		return nil, err
	}
	list := must.Get(manifestio.CollectedFiles(dir, "files.json"))(t)
	rowsOf := manifest.RowsOfRange
	if tb.rows != nil {
		rowsOf = manifest.RowsOfBounded
	}
	told := manifest.BatchesFacts{Examples: tb.n, Steps: spec.Scheme().NumSteps(), Shards: h.shards, RowType: manifest.RowType(tb.n), RowsOf: rowsOf}
	if spec.Owners != nil {
		told.Owners, told.ExamplesPerOwner = tb.n, spec.Owners.ExamplesPerOwner // no reader counts the owners
	}
	facts := must.Get(json.Marshal(told))(t)
	ix := manifest.Index{Format: manifest.BatchesFormatOf(spec), RunID: c.Key.RunID, Params: params, ParamsSHA256: sum, Facts: facts, Files: list}
	must.Do(t, stage.Publish(ix))
	b := must.Get(manifest.OpenBatches(t.Context(), dir))(t)
	for _, f := range b.Index.Files {
		if err := f.Check(t.Context(), dir); err != nil {
			t.Error(err)
		}
	}
	return b, nil
}

// refuses reports batches that are formed, or refused with another text.
func refuses(t *testing.T, about string, spec sampling.Spec, tb table, h how, want string) {
	t.Helper()
	_, err := tryForm(t, spec, tb, h)
	must.Fail(t, about, want)(err)
}

func read(t testing.TB, b *manifest.Batches) [][]int64 {
	var out [][]int64
	must.Do(t, b.Each(t.Context(), func(_ int, rows []int64, _ []int) error { out = append(out, slices.Clone(rows)); return nil }))
	return out
}

// content is what must not depend on how.
func content(t testing.TB, b *manifest.Batches) string { return fmt.Sprint(read(t, b)) }

// randomTable has string ids, some examples twice, and shared owners.
func randomTable(seed uint64, n, owners int) table {
	rng := rand.New(rand.NewPCG(seed, 1))
	rows := new(ownergraph.Rows)
	rows.Reset(0, ownergraph.String, ownergraph.Int64)
	for e := range n {
		rows.Examples.AppendBytes(fmt.Appendf(nil, "example %06d", e))
		rows.Copies = append(rows.Copies, 1+uint32(rng.IntN(4)/3))
		for u := range owners {
			if rng.IntN(owners) < 2 || u == e%owners {
				rows.Owners.AppendInt(int64(1000 - u))
			}
		}
		rows.Ends = append(rows.Ends, uint32(rows.Owners.Len()))
	}
	return table{n: int64(n), rows: rows}
}

// keyOf derives the key of a purpose as formation does.
func keyOf(t testing.TB, spec sampling.Spec, purpose string) stream.Key {
	root := must.Get(stream.ReadKeyFile(keyFile))(t)
	_, sum, err := manifest.Params(spec)
	must.Do(t, err)
	return root.Key(stream.RunID{1}, sum, "formation").Sub(purpose)
}

// sequential forms the batches of a scheme one copy after the other, with nothing of the pipeline.
func sequential(t testing.TB, spec sampling.Spec, tb table) [][]int64 {
	src := stream.NewSource(keyOf(t, spec, "participations"))
	process := spec.Process()
	var rows []int64
	var drawn, owners [][]int32
	for row := range tb.n {
		copies, owned := uint32(1), []int32{int32(row)}
		if tb.rows != nil {
			copies, owned = tb.rows.Copies[row], nil
			for j, end := tb.rows.OwnersOf(int(row)); j < end; j++ {
				owned = append(owned, int32(tb.rows.Owners.Int(j)))
			}
		}
		for c := range copies {
			addr := src.IntAddress(row, c)
			if tb.rows != nil {
				addr = tb.rows.Examples.Address(src, int(row), c)
			}
			rows, owners = append(rows, row), append(owners, owned)
			drawn = append(drawn, process.Draw(nil, src.Stream(addr), row))
		}
	}
	if m := spec.MultiOwner; m != nil {
		drawn = m.Exclude(drawn, owners)
	}
	batches := make([][]int64, spec.Scheme().NumSteps())
	for i, steps := range drawn {
		for _, step := range steps {
			batches[step] = append(batches[step], rows[i])
		}
	}
	for i, b := range batches {
		slices.Sort(b)
		if spec.Truncation != nil {
			batches[i] = cutAt(t, spec, i, b)
		}
	}
	return batches
}

// cutAt truncates the batch of a step.
func cutAt(t testing.TB, spec sampling.Spec, step int, rows []int64) []int64 {
	src := stream.NewSource(keyOf(t, spec, "truncation"))
	return sampling.Cut(*spec.Truncation, rows, func(row int64) sampling.Words { return src.Stream(src.IntAddress(row, uint32(step))) })
}

func specs() map[string]sampling.Spec {
	return map[string]sampling.Spec{
		"b-min-sep":      {BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 40, MinSep: 6, WarmStart: true}},
		"cold":           {BMinSep: &sampling.BMinSep{Prob: 0.1, Steps: 40, MinSep: 6}},
		"poisson":        {Poisson: &sampling.Poisson{Prob: 0.02, Steps: 40}},
		"epoch-min-sep":  {EpochMinSep: &sampling.EpochMinSep{Steps: 40, MinSep: 4, EpochSteps: 9}},
		"balls-in-bins":  {BallsInBins: &sampling.BallsInBins{Steps: 40, Period: 9}},
		"cyclic public":  {CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.3, Steps: 40, MinSep: 7}},
		"cyclic secret":  {CyclicPoisson: &sampling.CyclicPoisson{Prob: 0.3, Steps: 40, MinSep: 7, SecretPartition: true}},
		"multi-owner":    {MultiOwner: &sampling.MultiOwner{Prob: 0.03, Steps: 40, MinSep: 5}},
		"truncated":      {BMinSep: &sampling.BMinSep{Prob: 0.2, Steps: 40, MinSep: 6, WarmStart: true}, Truncation: &sampling.Truncation{MaxBatchSize: 18}},
		"few, truncated": {Poisson: &sampling.Poisson{Prob: 0.001, Steps: 40}, Truncation: &sampling.Truncation{MaxBatchSize: 1}},
	}
}

func TestEqualsTheSequentialReference(t *testing.T) {
	for name, spec := range specs() {
		for source, tb := range map[string]table{"range": {n: 200}, "table": randomTable(1, 200, 150)} {
			if tb.rows == nil && spec.MultiOwner != nil {
				refuses(t, name+" of numbered examples", spec, tb, plain, "needs a table")
				continue
			}
			t.Run(name+" "+source, func(t *testing.T) {
				want := sequential(t, spec, tb)
				if got := read(t, form(t, spec, tb, how{blocks: 1 + len(name)%3})); fmt.Sprint(got) != fmt.Sprint(want) {
					t.Errorf("formed %v, want %v", got, want)
				}
				if total := len(slices.Concat(want...)); total == 0 {
					t.Error("nothing takes part")
				}
			})
		}
	}
}

// TestMultiOwnerEqualsTheSequentialReference looks at graphs of many shapes: hot owners, one owner
// of all, copies.
func TestMultiOwnerEqualsTheSequentialReference(t *testing.T) {
	for seed := range uint64(12) {
		rng := rand.New(rand.NewPCG(seed, 2))
		tb := randomTable(100+seed, 20+rng.IntN(100), 1+rng.IntN(1<<rng.IntN(7)))
		spec := sampling.Spec{MultiOwner: &sampling.MultiOwner{Prob: 0.002 + 0.05*rng.Float64(), Steps: 1 + rng.IntN(60), MinSep: 1 + rng.IntN(20)}}
		h := how{shards: 1 + rng.IntN(spec.MultiOwner.Steps), buckets: 1 + rng.IntN(9), blocks: 1 + rng.IntN(5)}
		if got, want := read(t, form(t, spec, tb, h)), sequential(t, spec, tb); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%+v, %d examples: formed %v, want %v", spec.MultiOwner, tb.n, got, want)
		}
	}
}

// TestHowDoesNotMatter: runner, buckets, order and cut of the input, shards, blocks.
func TestHowDoesNotMatter(t *testing.T) {
	hows := map[string]how{
		"prism":           {runner: "prism"},
		"shuffled":        {shuffle: 7},
		"1 bucket":        {buckets: 1},
		"64 buckets":      {buckets: 64},
		"1 shard":         {shards: 1},
		"40 shards":       {shards: 40},
		"small chunks":    {chunk: 1},
		"blocks":          {blocks: 7},
		"prism, blocks":   {runner: "prism", blocks: 3, shards: 40, shuffle: 2},
		"prism, shuffled": {runner: "prism", shuffle: 9, buckets: 5, shards: 7},
	}
	tb := randomTable(2, 300, 200)
	all := specs()
	for _, name := range []string{"b-min-sep", "multi-owner", "truncated"} {
		base := form(t, all[name], tb, plain)
		want := content(t, base)
		for how, h := range hows {
			got := form(t, all[name], tb, h)
			if content(t, got) != want {
				t.Errorf("%s: %s changes the batches", name, how)
			}
			if h.shards == 0 && !gocmp.Equal(got.Index.Files, base.Index.Files) {
				t.Errorf("%s: %s changes the files", name, how)
			}
		}
	}
}

func TestFixed(t *testing.T) {
	spec := sampling.Spec{Fixed: &sampling.Fixed{BatchSize: 10, Steps: 30, MinSep: 4, MaxParticipations: 8}}
	tb := randomTable(4, 300, 200)
	for name, tb := range map[string]table{"range": {n: 300}, "table": tb} {
		batches := read(t, form(t, spec, tb, plain))
		if content(t, form(t, spec, tb, how{runner: "prism", shuffle: 3, shards: 5, blocks: 4})) != fmt.Sprint(batches) {
			t.Errorf("%s: how changes the batches", name)
		}
		byOwner := map[int64][]int32{}
		for step, rows := range batches {
			if len(rows) != 10 {
				t.Fatalf("%s: batch %d has %d rows", name, step, len(rows))
			}
			for _, r := range rows {
				if tb.rows == nil {
					byOwner[r] = append(byOwner[r], int32(step))
					continue
				}
				for j, end := tb.rows.OwnersOf(int(r)); j < end; j++ {
					u := tb.rows.Owners.Int(j)
					byOwner[u] = append(byOwner[u], int32(step))
				}
			}
		}
		for _, steps := range byOwner {
			for i, step := range steps {
				if i > 0 && step-steps[i-1] < 4 || i >= 8 {
					t.Fatalf("%s: steps %v of an owner", name, steps)
				}
			}
		}
	}
	spec.Fixed.BatchSize = 100
	var fault *sampling.InfeasibleError
	if _, err := tryForm(t, spec, table{n: 300}, plain); !errors.As(err, &fault) || fault.Largest != 75 {
		t.Errorf("range: got %v, want what is feasible", err)
	}
	// A runner hands on the text of an error only.
	refuses(t, "table", spec, tb, plain, "batch size 100: must be at most ")
}

func TestPadding(t *testing.T) {
	spec := specs()["truncated"]
	cut := read(t, form(t, spec, table{n: 100}, plain))
	padded := spec
	padded.Truncation = &sampling.Truncation{MaxBatchSize: 18, Pad: true}
	some := false
	for step, rows := range read(t, form(t, padded, table{n: 100}, plain)) {
		real := slices.Index(rows, sampling.PadRow)
		if real < 0 {
			real = 18
		}
		some = some || real < 18
		if len(rows) != 18 || slices.ContainsFunc(rows[real:], func(r int64) bool { return r != sampling.PadRow }) || real > len(cut[step])+18 {
			t.Fatalf("step %d: %v", step, rows)
		}
	}
	if !some {
		t.Error("nothing was padded")
	}
}

func TestTablesThatAreNotTheirConfiguration(t *testing.T) {
	tb := randomTable(7, 50, 30)
	refuses(t, "a row out of range", specs()["poisson"], table{n: 49, rows: tb.rows, first: 1}, plain, "says 49 rows")
	fixed := sampling.Spec{Fixed: &sampling.Fixed{BatchSize: 1, Steps: 5, MinSep: 2}}
	refuses(t, "a missing row", fixed, table{n: 50, rows: tb.rows, first: 1}, plain, "row 1 ")
	wrong := how{names: true, wrongType: true}
	refuses(t, "ids of another type", ofOwners(specs()["poisson"], 2), ownedTable(7, 50, ownergraph.String, ownergraph.Int64), wrong, "ids of the table are of type string")
}

func TestFaults(t *testing.T) {
	err := formation.Config{Spec: specs()["poisson"], Settings: formation.Settings{Shards: 41, Blocks: -1, Buckets: -1, Workers: -1}}.Validate()
	for _, want := range []string{"examples 0", "shards 41", "blocks -1", "buckets -1", "workers -1", "key file"} {
		must.Fail(t, "several faults", want)(err)
	}
}

// TestRowsTwice: rows that come twice, or do not come, fail the pipeline, and nothing is written.
func TestRowsTwice(t *testing.T) {
	tb := randomTable(8, 60, 30)
	twice := how{twice: true}
	for name, c := range map[string]struct {
		examples int64
		how
		want string
	}{"a row too many": {59, plain, " rows"}, "a row too few": {61, plain, " rows"}, "rows twice": {60, twice, "some twice or not at all"}} {
		for _, kind := range []string{"poisson", "multi-owner"} {
			_, err := tryForm(t, specs()[kind], table{n: c.examples, rows: tb.rows}, c.how)
			if err == nil || !strings.Contains(err.Error(), c.want) || strings.Contains(err.Error(), "example 0") {
				t.Errorf("%s: %s: got %v", kind, name, err)
			}
		}
	}
	refuses(t, "owners", ofOwners(specs()["poisson"], 2), ownedTable(8, 60, ownergraph.Int64, ownergraph.Int64), twice, "some twice or not at all")
}

package transforms

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/util/reflectx"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/graphio"
	"minsep/internal/manifest"
	"minsep/internal/ownergraph"
	"minsep/internal/packed"
	"minsep/internal/store"
	"minsep/internal/transforms/contribution"
	"minsep/internal/transforms/keyref"
	"minsep/internal/transforms/manifestio"
)

// Row is an example of a bounded table. Its id is the key beside it.
type Row[V ID] struct {
	Number int64 // of the row: examples are numbered from 0 in the order of their ids
	Copies int   // how often the example is kept, at least 1
	Owners []V
	Pools  []int // in which the example is, ascending; none unless [Limits.Pools] is set
}

// Limits are the limits of [BoundContributions].
type Limits struct {
	MaxExamplesPerOwner int  // at least 1; copies count
	Duplicates          bool // go through the kept examples again, adding copies as owners have room
	MaxNeighborhood     int  // drop an example that shares owners with more examples than this, itself counted; 0 for no bound
	Random              bool // take the examples in a random order, in place of those with the fewest owners first
	Pools               int  // of rotation; needs one example per owner and no duplicates; 0 for none

	// The fields below do not change the result.

	EdgesInMemory int64  // pairs that the worker that bounds them holds in memory, at 90 bytes each for integers; more go through files, at three times the cost; 0 for 2^26
	TempDir       string // of these files, on each worker; empty for the system's
	SharedDir     string // that every worker reads and writes, for output too large for a bundle, as Flink has it; empty: all goes through the runner
	BundleBytes   int64  // of output after which files in SharedDir take the rest; 0 for what Flink bears
}

func (l Limits) bound() ownergraph.Bound {
	b := ownergraph.Bound{
		MaxExamplesPerOwner: l.MaxExamplesPerOwner,
		Duplicates:          l.Duplicates,
		MaxNeighborhood:     l.MaxNeighborhood,
		Pools:               l.Pools,
	}
	if l.Random {
		b.Order = ownergraph.Random
	}
	return b
}

// Examples is a table of examples inside a pipeline: numbered, bounded, and packed for what follows.
type Examples struct {
	// Summary is a PCollection<[]byte> of one element, such as for a side input: what was kept, as JSON.
	// "examples", "owners" and "edges" count the pairs that were given, "kept" the examples that were
	// kept, "kept_copies" each as often as it is; "kept_examples_per_owner" has the owners with each
	// number of copies, a list of {"value", "count"}.
	Summary beam.PCollection
	OddIDs  beam.PCollection // <string>: what is odd about the ids, such as two that differ by case; unset for a table and numbers

	training   *Training
	key, owner reflect.Type
	numbered   int64             // examples 0 to numbered-1; 0 for a table
	table      *manifest.Bounded // that is read; nil otherwise
	limits     Limits            // of pairs that this pipeline bounds
	parts      beam.PCollection  // KV<uint32, []byte>: their packed rows, by part of the table
	published  beam.PCollection  // <string>: SHA-256 of the index of the table, once it is written
}

// packers and unpackers make the DoFns of a pair of id types. They are constant after the init
// functions.
var (
	packers   = map[[2]reflect.Type]func() any{}
	unpackers = map[[2]reflect.Type]func() any{}
)

func init() {
	registerKey[int64]()
	registerKey[uint64]()
	registerKey[string]()
	registerKey[[]byte]()
	beam.RegisterDoFn(reflect.TypeFor[recordsFn]())
	beam.RegisterDoFn(reflect.TypeFor[publishTableFn]())
	register.Emitter1[[]byte]()
	register.Emitter1[string]()
	register.Iter1[[]byte]()
	register.Iter1[string]()
}

func registerKey[K ID]() {
	registerPair[K, int64]()
	registerPair[K, uint64]()
	registerPair[K, string]()
	registerPair[K, []byte]()
	registerBatch[K]()
}

func registerPair[K, V ID]() {
	beam.RegisterDoFn(reflect.TypeFor[packFn[K, V]]())
	beam.RegisterDoFn(reflect.TypeFor[unpackFn[K, V]]())
	register.Emitter2[K, Row[V]]()
	// Calls without reflection, for the one DoFn here that is called for each pair. register.DoFn4x1
	// does the same, and takes the compiler 7 seconds for each pair of types.
	reflectx.RegisterStructWrapper(reflect.TypeFor[packFn[K, V]](), func(fn any) map[string]reflectx.Func {
		f := fn.(*packFn[K, V])
		return map[string]reflectx.Func{
			"StartBundle":    reflectx.MakeFunc(f.StartBundle),
			"ProcessElement": &packCall[K, V]{f.ProcessElement},
			"FinishBundle":   reflectx.MakeFunc(f.FinishBundle),
		}
	})
	pair := [2]reflect.Type{reflect.TypeFor[K](), reflect.TypeFor[V]()}
	packers[pair] = func() any { return &packFn[K, V]{} }
	unpackers[pair] = func() any { return &unpackFn[K, V]{} }
}

// BoundContributions keeps at most MaxExamplesPerOwner examples of each owner, and numbers them.
// pairs is a PCollection<KV<K, V>>: an example's id and the id of one of its owners. Equal pairs
// count once.
func BoundContributions(s beam.Scope, t *Training, l Limits, pairs beam.PCollection) (Examples, error) {
	s = s.Scope("minsep.BoundContributions")
	k, v, err := pairTypes("pairs", pairs)
	if err != nil {
		return Examples{}, err
	}
	e := Examples{training: t, key: k, owner: v, limits: l}
	return e.bound(s, func(s beam.Scope) (beam.PCollection, error) {
		return beam.ParDo(s, packers[[2]reflect.Type{k, v}](), pairs), nil
	})
}

// Graph is a table of pairs in files, as `minsep bound` reads it. What is left empty is decided by
// the files' names and contents.
type Graph struct {
	Files          []string // files, folders or patterns, which every worker reads under these names
	Format         string   // csv, tsv or parquet
	Header         string   // of CSV and TSV: yes or no
	ExampleColumn  string   // a name or a 1-based position
	OwnerColumn    string   // a name or a 1-based position
	OwnerSeparator string   // between owners in one text
	SingleOwner    bool     // there is no column of owners: each example is its own

	source *graphio.Source // that is open already
}

func (g Graph) open(ctx context.Context) (*graphio.Source, error) {
	if g.source != nil {
		return g.source, nil
	}
	return graphio.Open(
		ctx,
		g.Files,
		graphio.Options{Format: g.Format, Header: g.Header, ExampleColumn: g.ExampleColumn,
			OwnerColumn: g.OwnerColumn, OwnerSeparator: g.OwnerSeparator, SingleOwner: g.SingleOwner},
	)
}

// BoundGraph is [BoundContributions] for a graph in files. Ids are int64, string or []byte, as the files
// have them.
func BoundGraph(ctx context.Context, s beam.Scope, t *Training, l Limits, g Graph) (Examples, error) {
	s = s.Scope("minsep.BoundGraph")
	graph, err := g.open(ctx)
	if err != nil {
		return Examples{}, err
	}
	e := Examples{training: t, key: goType(graph.ExampleType), owner: goType(graph.OwnerType), limits: l}
	return e.bound(s, func(s beam.Scope) (beam.PCollection, error) {
		return manifestio.ReadGraph(s, graph.Splits())
	})
}

// bound bounds the edges that read adds to the pipeline.
func (e Examples) bound(s beam.Scope, read func(beam.Scope) (beam.PCollection, error)) (Examples, error) {
	if err := e.training.check(); err != nil {
		return Examples{}, err
	}
	l := e.limits
	_, digest, err := manifest.Params(l.bound())
	if err != nil {
		return Examples{}, err
	}
	c := contribution.Config{
		Bound:         l.bound(),
		Key:           keyref.Ref{KeyURI: e.training.keyFile, RunID: e.training.id, Params: digest},
		EdgesInMemory: l.EdgesInMemory,
		TempDir:       l.TempDir,
		Overflow:      packed.Overflow{Dir: l.SharedDir, After: l.BundleBytes},
	}
	c.Examples, _ = columnType(e.key)
	c.Owners, _ = columnType(e.owner)
	if err := c.Validate(); err != nil {
		return Examples{}, err
	}
	if err := e.training.claim("bound"); err != nil {
		return Examples{}, err
	}
	edges, err := read(s)
	if err != nil {
		return Examples{}, err
	}
	bounded, err := contribution.Bound(s, c, edges)
	if err != nil {
		return Examples{}, err
	}
	e.Summary, e.OddIDs, e.parts = bounded.Summary, bounded.OddIDs, bounded.Rows
	return e, nil
}

// isNumbered reports whether the examples are in no table.
func (e Examples) isNumbered() bool { return e.table == nil && !e.parts.IsValid() }

// NumberedExamples are the examples 0 to n-1, each its own owner and its own row.
func NumberedExamples(t *Training, n int64) Examples {
	return Examples{training: t, key: reflect.TypeFor[int64](), numbered: n}
}

// ReadTable reads the bounded table in a folder, such as run/bounded after [Examples.Write] or
// `minsep bound`. Ids are int64 or string, as the table has them.
func ReadTable(ctx context.Context, s beam.Scope, t *Training, folder string) (Examples, error) {
	table, err := manifest.OpenBounded(ctx, folder)
	if err != nil {
		return Examples{}, err
	}
	summary, err := json.Marshal(table.Summary)
	if err != nil {
		return Examples{}, err
	}
	return Examples{
		Summary:  beam.CreateList(s.Scope("minsep.ReadTable"), [][]byte{summary}),
		training: t,
		table:    table,
		key:      goType(table.ExampleType),
		owner:    goType(table.OwnerType),
	}, nil
}

// rows returns the examples as a PCollection<[]byte> of encoded [ownergraph.Rows].
func (e Examples) rows(s beam.Scope, owners bool) (beam.PCollection, error) {
	switch {
	case e.parts.IsValid():
		return beam.ParDo(s, &recordsFn{}, beam.Reshuffle(s, e.parts)), nil // one worker bounds, and several draw
	case e.table != nil:
		return manifestio.ReadBounded(s, e.table, owners)
	}
	return beam.PCollection{}, errors.New("numbered examples are in no table: their rows are their numbers")
}

// Rows are the examples: PCollection<KV<K, Row[V]>>.
func (e Examples) Rows(s beam.Scope) (beam.PCollection, error) {
	s = s.Scope("minsep.Rows")
	rows, err := e.rows(s, true)
	if err != nil {
		return beam.PCollection{}, err
	}
	return beam.ParDo(s, unpackers[[2]reflect.Type{e.key, e.owner}](), rows), nil
}

// Files writes the table into a folder, which exists, without an index. It returns the files, a
// PCollection<string> of JSON with name, bytes and SHA-256.
func (e Examples) Files(s beam.Scope, folder string) (beam.PCollection, error) {
	if !e.parts.IsValid() {
		return beam.PCollection{}, errors.New(
			"only examples that this pipeline bounds can be written: others are numbers, or in files already",
		)
	}
	dir, err := store.Abs(folder)
	if err != nil {
		return beam.PCollection{}, err
	}
	k, _ := columnType(e.key)
	v, _ := columnType(e.owner)
	return manifestio.WriteBounded(s, dir, e.limits.TempDir, k, v, e.limits.Pools > 0, e.parts), nil
}

// Write writes the table into the training's run directory, as `minsep bound` does, and its index
// when all files are there. Batches that are sampled afterwards name it in their index.
func (e *Examples) Write(ctx context.Context, s beam.Scope) error {
	s = s.Scope("minsep.WriteTable")
	if err := ctx.Err(); err != nil {
		return err
	}
	if e.published.IsValid() {
		return errors.New("the table is written already")
	}
	if err := e.training.check(); err != nil {
		return err
	}
	folder := store.Join(e.training.dir, manifest.BoundedFolder)
	files, err := e.Files(s, folder)
	if err != nil {
		return err
	}
	ix := manifest.Index{Format: manifest.BoundedFormatOf(e.limits.bound()), RunID: e.training.id}
	if ix.Params, ix.ParamsSHA256, err = manifest.Params(e.limits.bound()); err != nil {
		return err
	}
	if _, err := manifest.Begin(folder, false); err != nil {
		return err
	}
	e.published = beam.ParDo(
		s,
		&publishTableFn{e.training.dir, folder, ix},
		beam.GroupByKey(s, beam.AddFixedKey(s, files)),
		beam.SideInput{Input: e.Summary},
	)
	return nil
}

// packFn packs pairs into encoded [ownergraph.Edges].
type packFn[K, V ID] struct{ edges ownergraph.Edges }

// packedPairs is the number of pairs in a chunk: 64 KiB of integers.
const packedPairs = 4096

func (f *packFn[K, V]) StartBundle(context.Context, func([]byte)) {
	k, _ := columnType(reflect.TypeFor[K]())
	v, _ := columnType(reflect.TypeFor[V]())
	f.edges.Reset(k, v)
}

func (f *packFn[K, V]) ProcessElement(ctx context.Context, example K, owner V, emit func([]byte)) error {
	if err := appendID(&f.edges.Examples, example); err != nil {
		return err
	}
	if err := appendID(&f.edges.Owners, owner); err != nil {
		return err
	}
	if f.edges.Len() < packedPairs {
		return nil
	}
	return f.FinishBundle(ctx, emit)
}

func (f *packFn[K, V]) FinishBundle(_ context.Context, emit func([]byte)) error {
	if f.edges.Len() == 0 {
		return nil
	}
	b, err := f.edges.AppendBinary(nil)
	if err == nil {
		emit(b)
	}
	f.edges.Reset(f.edges.Examples.Type, f.edges.Owners.Type)
	return err
}

// packCall calls packFn.ProcessElement without reflection.
type packCall[K, V ID] struct {
	fn func(context.Context, K, V, func([]byte)) error
}

func (c *packCall[K, V]) Name() string       { return reflectx.FunctionName(c.fn) }
func (c *packCall[K, V]) Type() reflect.Type { return reflect.TypeOf(c.fn) }

func (c *packCall[K, V]) Call(args []any) []any {
	return []any{c.Call4x1(args[0], args[1], args[2], args[3])}
}

func (c *packCall[K, V]) Call4x1(ctx, k, v, emit any) any {
	return c.fn(ctx.(context.Context), k.(K), v.(V), emit.(func([]byte)))
}

// recordsFn takes packed rows apart, into encoded rows of about 64 KiB.
type recordsFn struct{}

func (*recordsFn) ProcessElement(_ uint32, chunk []byte, emit func([]byte)) error {
	return packed.Records(chunk, func(rows []byte) error {
		emit(append([]byte{}, rows...))
		return nil
	})
}

// unpackFn makes elements of encoded rows.
type unpackFn[K, V ID] struct{ rows ownergraph.Rows }

func (f *unpackFn[K, V]) ProcessElement(ctx context.Context, b []byte, emit func(K, Row[V])) error {
	if err := f.rows.UnmarshalBinary(b); err != nil {
		return err
	}
	ids := appendIDs([]K(nil), &f.rows.Examples, f.rows.Len())
	owners := appendIDs([]V(nil), &f.rows.Owners, f.rows.Owners.Len())
	for i, id := range ids {
		start, end := f.rows.OwnersOf(i)
		row := Row[V]{
			Number: f.rows.First + int64(i),
			Copies: int(f.rows.Copies[i]),
			Owners: owners[start:end:end],
		}
		for _, pool := range f.rows.PoolsOf(i) {
			row.Pools = append(row.Pools, int(pool))
		}
		emit(id, row)
	}
	return ctx.Err()
}

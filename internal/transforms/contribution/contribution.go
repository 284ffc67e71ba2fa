// Package contribution bounds, with Beam, how many examples an owner contributes to a run.
//
// # Behavior
//
// The greedy pass of [ownergraph.Bound] takes one example after the other, so one worker bounds the
// graph: in memory, or a large one through files, see package ondisk. All workers read the edges,
// encode them and, behind this package, write the rows.
//
// # Determinism
//
// The worker sorts the edges, so nothing depends on the order in which a runner delivers.
package contribution

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/leave"
	"minsep/internal/ondisk"
	"minsep/internal/ownergraph"
	"minsep/internal/packed"
	"minsep/internal/param"
	"minsep/internal/transforms/keyref"
	"minsep/internal/transforms/progress"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[gatherFn]())
	beam.RegisterDoFn(reflect.TypeFor[boundFn]())
	register.Iter1[[]byte]()
	register.Emitter1[[]byte]()
	register.Emitter1[string]()
	register.Emitter2[uint32, []byte]()
}

var (
	edgesHeld       = progress.New("edges held")
	examplesDecided = progress.New("examples decided")
)

// Config holds the parameters of [Bound] besides the edges. Nothing in it is secret.
type Config struct {
	Bound ownergraph.Bound // the limits of an owner
	Key   keyref.Ref       // the root key, and for what keys are derived from it

	Examples, Owners ownergraph.IDType // of the ids in every batch of edges

	// The result does not depend on the fields below.

	EdgesInMemory int64           // that the worker holds in memory; more go through files; 0 means [ondisk.DefaultInMemory]
	RowsPerPart   int             // consecutive rows in one part of the result; 0 means [DefaultRowsPerPart]
	TempDir       string          // of those files; empty for the system's
	Overflow      packed.Overflow // for output too large for one bundle, in a folder that every worker reads and writes; none: all goes through the runner
}

// DefaultRowsPerPart is the number of rows in every part of the result but the last.
const DefaultRowsPerPart = 1 << 20

// Validate reports every fault of c. It does not read the key file.
func (c Config) Validate() error {
	check := param.Checker{}
	check.Add(c.Bound.Validate())
	check.Add(c.Key.Validate())
	check.Require(c.EdgesInMemory >= 0, "edges in memory", c.EdgesInMemory, "must be at least 0")
	check.Require(c.Overflow.After >= 0, "overflow", c.Overflow.After, "must begin after at least 0 bytes")
	check.AtLeast("rows per part", c.RowsPerPart, 0)
	return check.Err()
}

// Result is a bounded graph.
type Result struct {
	// Rows are the kept examples: KV<uint32, []byte>, part number and a chunk of package packed, of
	// records of any length: each is an encoded [ownergraph.Rows] of about 64 KiB within that part.
	// Rows are numbered from 0 in the order of the example ids; part i holds the rows from
	// i·RowsPerPart on. manifestio.WriteBounded takes them.
	Rows beam.PCollection
	// Summary is one element, []byte: an [ownergraph.Summary] as JSON.
	Summary beam.PCollection
	// OddIDs are the strings of [ownergraph.Graph.OddIDs].
	OddIDs beam.PCollection
}

// Bound bounds the graph with these edges, a PCollection<[]byte>: each element is an encoded
// [ownergraph.Edges] of the configured types. Elements of about 64 KiB serve well. The error names
// every fault of the configuration.
func Bound(s beam.Scope, c Config, edges beam.PCollection) (Result, error) {
	if err := c.Validate(); err != nil {
		return Result{}, err
	}
	s = s.Scope("contribution.Bound")
	c.RowsPerPart = cmp.Or(c.RowsPerPart, DefaultRowsPerPart)
	// An element without edges makes sure that a graph without any is bounded too.
	none, err := new(ownergraph.Edges).AppendBinary(nil)
	if err != nil {
		return Result{}, err
	}
	all := beam.Flatten(s, edges, beam.CreateList(s, [][]byte{none}))
	gathered := beam.ParDo(s, &gatherFn{Overflow: c.Overflow}, all)
	rows, summary, odd := beam.ParDo3(s, &boundFn{Config: c}, beam.GroupByKey(s, gathered))
	return Result{rows, summary, odd}, nil
}

// gatherFn sends all edges to one worker. With a folder for them, a bundle passes on a chunk, or so
// many bytes as the configuration says, and puts the rest into files: a runner may hold all chunks of
// a key as one record, which in Flink ends at 2 GB.
type gatherFn struct {
	Overflow packed.Overflow

	packer *packed.Packer
}

func (f *gatherFn) StartBundle(packed.Emit) {
	o := f.Overflow
	o.After = cmp.Or(o.After, packed.ChunkSize)
	f.packer = packed.NewPacker(0).Over(o)
}

func (f *gatherFn) ProcessElement(edges []byte, emit func(uint32, []byte)) {
	f.packer.Pass(0, edges, emit)
}

func (f *gatherFn) FinishBundle(emit packed.Emit) error { return f.packer.Flush(emit) }

// boundFn bounds the graph.
type boundFn struct{ Config Config }

func (f *boundFn) ProcessElement(
	ctx context.Context,
	_ uint32,
	chunks func(*[]byte) bool,
	rows packed.Emit,
	summary func([]byte),
	odd func(string),
) error {
	key, err := f.Config.Key.Key(ctx, ownergraph.PriorityPurpose)
	if err != nil {
		return err
	}
	bounder := &ondisk.Bounder{
		Bound:    f.Config.Bound,
		Key:      key,
		Examples: f.Config.Examples,
		Owners:   f.Config.Owners,
		InMemory: f.Config.EdgesInMemory,
		Dir:      f.Config.TempDir,
		Progress: progress.Enter,
	}
	for chunk := []byte(nil); chunks(&chunk); chunk = nil {
		if err := f.add(ctx, bounder, chunk); err != nil {
			return errors.Join(err, bounder.Close())
		}
	}
	// Sorting in memory does not look at the context: an interrupt ends the wait, and not the sort.
	bounded, err := leave.Behind(ctx, func() (*ownergraph.Bounded, error) {
		defer bounder.Close()
		return bounder.Bounded(ctx)
	})
	if err != nil {
		return err
	}
	progress.Enter("", "", 0, 0)
	examplesDecided.Add(ctx, int(bounded.Summary.Examples))
	for _, text := range bounded.Graph.OddIDs() {
		odd(text)
	}
	if err := f.emit(ctx, bounded, rows); err != nil {
		return err
	}
	b, err := json.Marshal(bounded.Summary)
	summary(b)
	return err
}

// add gives the bounder the batches of edges in a chunk, which may be a reference to a file.
func (f *boundFn) add(ctx context.Context, to *ondisk.Bounder, chunk []byte) error {
	var edges ownergraph.Edges
	chunk, err := packed.Resolve(chunk)
	for err == nil && len(chunk) > 0 {
		if chunk, err = edges.Decode(chunk); err != nil {
			return err
		}
		if edges.Len() == 0 { // and no id types to compare
			continue
		}
		if edges.Examples.Type != f.Config.Examples || edges.Owners.Type != f.Config.Owners {
			return fmt.Errorf("conflicting id types: edges of %v and %v ids among edges of %v and %v ids",
				edges.Examples.Type, edges.Owners.Type, f.Config.Examples, f.Config.Owners)
		}
		edgesHeld.Add(ctx, edges.Len())
		err = cmp.Or(to.Add(&edges), ctx.Err())
	}
	return err
}

// emittedRows is the number of rows that are emitted together: about a chunk of integers.
const emittedRows = 1 << 11

// emit emits the rows, each run of them in one part of the table.
func (f *boundFn) emit(ctx context.Context, bounded *ownergraph.Bounded, emit packed.Emit) error {
	packer := packed.NewPacker(0).Over(f.Config.Overflow)
	perPart := int64(f.Config.RowsPerPart)
	var run ownergraph.Rows
	var record []byte
	example := 0
	for row := int64(0); row < bounded.Summary.Kept; row += int64(run.Len()) {
		run.Reset(row, f.Config.Examples, f.Config.Owners)
		example = bounded.AppendRows(&run, example, int(min(emittedRows, perPart-row%perPart)))
		var err error
		if record, err = run.AppendBinary(record[:0]); err != nil {
			return err
		}
		packer.AddAlone(uint32(row/perPart), record, emit)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return packer.Flush(emit)
}

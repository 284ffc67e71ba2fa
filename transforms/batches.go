package transforms

import (
	"context"
	"errors"
	"reflect"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/manifest"
	"minsep/internal/param"
	"minsep/internal/store"
	"minsep/internal/transforms/formation"
	"minsep/internal/transforms/keyref"
	"minsep/sampling"
)

// Batch is a part of the batch of a step: at most [Sampling.PartSize] of its examples. A batch of
// nobody is one part without examples, since its step is one of the training. Which examples are in
// a batch, and how many, is secret.
type Batch[K ID] struct {
	Step        int     // from 0
	Part, Parts int     // of the step: 0 to Parts-1
	Rows        []int64 // ascending; with owners as the unit, by owner
	IDs         []K     // of the rows; nil with [Sampling.RowsOnly]
	Ends        []int   // with owners as the unit: where the rows of each owner end in Rows; else nil
}

// Sampling says how examples take part in steps.
type Sampling struct {
	sampling.Params // the scheme, such as "b-min-sep", its steps, separation, and batch size or probability; or [sampling.LawScheme] with a Law

	// The fields below do not change which examples are in a batch.

	RowsOnly bool   // leave the ids out of batches
	PartSize int    // examples of a [Batch], of whole owners with owners as the unit; 0 means 65,536
	Shards   int    // of steps, each assembled in the memory of one worker; 0 for about 4 million examples in each
	Blocks   int    // of the rows of each shard, for steps that are too large for one worker; 0 for about 8 million examples of a step in each, if the batch size or the examples are known before the pipeline runs, else 1
	Buckets  int    // of owners, where they matter; 0 for as many as the size calls for
	Workers  int    // goroutines of a bundle; 0 for one a processor: give 1 if the runner has a bundle for each processor
	TempDir  string // of temporary files on each worker; empty for the system's
}

// defaultPartSize is the number of examples in a part of a batch.
const defaultPartSize = 1 << 16

// Batches are the batches of a training inside a pipeline.
type Batches struct {
	training *Training
	examples Examples
	sampling Sampling
	spec     sampling.Spec // zero until the pipeline has counted the examples
	drawn    formation.Drawn
}

// SampleBatches draws in which steps each example takes part. A batch size becomes a probability
// when the examples are counted, inside the pipeline if that is where they come from. Rows that come
// twice or not at all fail the pipeline, with an error that names none.
func SampleBatches(s beam.Scope, c Sampling, e Examples) (Batches, error) {
	s = s.Scope("minsep.SampleBatches")
	t := e.training
	if err := t.check(); err != nil {
		return Batches{}, err
	}
	k := param.Checker{}
	k.AtLeast("part size", c.PartSize, 0)
	k.AtLeast("shards", c.Shards, 0)
	k.AtLeast("blocks", c.Blocks, 0)
	k.AtLeast("buckets", c.Buckets, 0)
	k.AtLeast("workers", c.Workers, 0)
	r := formation.Request{
		Params: c.Params,
		Settings: formation.Settings{
			Shards:  c.Shards,
			Blocks:  c.Blocks,
			Names:   !c.RowsOnly,
			Key:     keyref.Ref{KeyURI: t.keyFile, RunID: t.id},
			Buckets: c.Buckets,
			Workers: c.Workers,
			TempDir: c.TempDir,
		},
	}
	r.IDs.Type, _ = columnType(e.key)
	r.IDs.AreRow = e.isNumbered()
	k.Add(r.Validate())
	if err := k.Err(); err != nil {
		return Batches{}, err
	}
	if c.PartSize == 0 {
		c.PartSize = defaultPartSize
	}
	b := Batches{training: t, examples: e, sampling: c}
	if r.IDs.AreRow {
		resolved, err := r.Resolve(formation.Numbered(e.numbered))
		if err != nil {
			return Batches{}, err
		}
		side, err := resolved.Collection(s)
		if err != nil {
			return Batches{}, err
		}
		b.spec, r.Blocks = resolved.Config.Spec, resolved.Config.Blocks
		b.drawn = formation.Range(s, r, side, e.numbered)
		return b, t.claim("sampling")
	}
	if e.table != nil { // what is known already is refused before the pipeline runs
		resolved, err := r.Resolve(e.table.Summary)
		if err != nil {
			return Batches{}, err
		}
		b.spec, r.Blocks = resolved.Config.Spec, resolved.Config.Blocks
	} else if c.Blocks == 0 {
		r.Blocks = manifest.BatchBlocks(c.BatchSize * float64(max(1, c.ExamplesPerOwner)))
	}
	rows, err := e.rows(s, c.Kind().Owners != sampling.OwnersIgnored || c.Sample == sampling.SampleOwners)
	if err != nil {
		return Batches{}, err
	}
	b.drawn = formation.Table(s, r, formation.Resolve(s, r, e.Summary), rows)
	return b, t.claim("sampling")
}

// Elements are the batches as PCollection<Batch[K]>, K the type of the examples' ids. Padding is left
// out. Equal (Step, Part) are equal parts, whatever the runner and the number of shards. A part ends
// where a block of rows does.
func (b Batches) Elements(s beam.Scope) (beam.PCollection, error) {
	if err := b.check(); err != nil {
		return beam.PCollection{}, err
	}
	return b.drawn.Each(s.Scope("minsep.Elements"), assemblers[b.examples.key](b.sampling.PartSize)), nil
}

func (b Batches) check() error {
	if b.training == nil {
		return errors.New("no batches are given: make them with SampleBatches")
	}
	return nil
}

// Files writes the batches into a folder, which exists with mode 0700, without an index. It returns the
// files, a PCollection<string> of JSON with name, bytes and SHA-256.
func (b Batches) Files(s beam.Scope, folder string) (beam.PCollection, error) {
	if err := b.check(); err != nil {
		return beam.PCollection{}, err
	}
	dir, err := store.Abs(folder)
	if err != nil {
		return beam.PCollection{}, err
	}
	return b.drawn.Write(s, dir), nil
}

// Write writes the batches into the training's run directory, as `minsep form` does, and their index
// when all files are there. Everything happens on the workers, so that a program may submit the
// pipeline and end. It returns one element, the SHA-256 of the parameters in the index as text.
func (b Batches) Write(ctx context.Context, s beam.Scope) (beam.PCollection, error) {
	s = s.Scope("minsep.WriteBatches")
	if err := errors.Join(ctx.Err(), b.check()); err != nil {
		return beam.PCollection{}, err
	}
	folder := store.Join(b.training.dir, manifest.BatchesFolder)
	files, err := b.Files(s, folder)
	if err != nil {
		return beam.PCollection{}, err
	}
	if _, err := manifest.Begin(folder, true); err != nil {
		return beam.PCollection{}, err
	}
	all := beam.GroupByKey(s, beam.AddFixedKey(s, files))
	table := b.examples.published
	if !table.IsValid() {
		digest := ""
		if b.examples.table != nil {
			digest = b.examples.table.Digest.String()
		}
		table = beam.CreateList(s, []string{digest})
	}
	return beam.ParDo(s, &publishBatchesFn{Folder: folder, KeyFile: b.training.keyFile}, all,
		beam.SideInput{Input: b.drawn.Resolved}, beam.SideInput{Input: table}), nil
}

// assemblers make the DoFns of a type of ids. They are constant after the init functions.
var assemblers = map[reflect.Type]func(partSize int) any{}

func registerBatch[K ID]() {
	beam.RegisterDoFn(reflect.TypeFor[assembleFn[K]]())
	register.Emitter1[Batch[K]]()
	assemblers[reflect.TypeFor[K]()] = func(partSize int) any { return &assembleFn[K]{PartSize: partSize} }
}

func init() { beam.RegisterDoFn(reflect.TypeFor[publishBatchesFn]()) }

// assembleFn makes elements of the batches of a cell, once the rows are known to be complete.
type assembleFn[K ID] struct{ PartSize int }

func (f *assembleFn[K]) ProcessElement(
	ctx context.Context,
	cell uint32,
	chunks, resolved, sizes func(*[]byte) bool,
	emit func(Batch[K]),
) error {
	r, err := formation.ReadResolved(resolved)
	if err != nil {
		return err
	}
	var all []K // of the cell: texts of all its batches share memory
	return formation.Assemble(ctx, r.Config, cell, chunks, sizes, f.PartSize, func(p *formation.Part) error {
		b := Batch[K]{Step: p.Step, Part: p.Part, Parts: p.Parts, Rows: slices.Clone(p.Rows), Ends: p.Ends}
		switch {
		case len(p.Rows) == 0 || !r.Config.Names:
		case p.IDs == nil:
			b.IDs = any(slices.Clone(p.Rows)).([]K) // the ids of numbered examples are int64
		default:
			if all == nil {
				all = appendIDs(all, p.IDs, p.IDs.Len())
			}
			b.IDs = make([]K, len(p.Places))
			for i, place := range p.Places {
				b.IDs[i] = all[place]
			}
		}
		emit(b)
		return nil
	})
}

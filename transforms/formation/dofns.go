package formation

import (
	"cmp"
	"context"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/packed"
	"minsep/manifest"
	"minsep/sampling"
	"minsep/sampling/ownergraph"
	"minsep/sampling/stream"
	"minsep/transforms/manifestio"
	"minsep/transforms/progress"
)

type emitChunk = func(uint32, []byte)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[spanFn]())
	beam.RegisterDoFn(reflect.TypeFor[emptyFn]())
	beam.RegisterDoFn(reflect.TypeFor[drawRangeFn]())
	beam.RegisterDoFn(reflect.TypeFor[drawTableFn]())
	beam.RegisterDoFn(reflect.TypeFor[excludeFn]())
	beam.RegisterDoFn(reflect.TypeFor[ownedFn]())
	beam.RegisterDoFn(reflect.TypeFor[drawOwnersFn]())
	beam.RegisterDoFn(reflect.TypeFor[writeFn]())
	register.Emitter1[span]()
	register.Emitter1[string]()
	register.Emitter2[uint32, []byte]()
	register.Iter1[[]byte]()
}

// ExamplesSampled is the name of the counter of rows with drawn participations.
const ExamplesSampled = "examples sampled"

var examplesSampled = progress.New(ExamplesSampled)

// span is a range of rows that one element, and so one worker, draws.
type span struct{ First, Count int64 }

const (
	spanRows = 1 << 20 // of a span
	jobRows  = 1 << 16 // of a job on one core
	jobBytes = 1 << 20 // of encoded rows of a job
)

// spanFn divides the rows into spans.
type spanFn struct{ Examples int64 }

func (f *spanFn) ProcessElement(_ []byte, emit func(span)) {
	for first := int64(0); first < f.Examples; first += spanRows {
		emit(span{first, min(spanRows, f.Examples-first)})
	}
}

// emptyFn emits an empty chunk for every shard, so that a shard in which nobody takes part has its
// files too: its steps are steps of the training.
type emptyFn struct{ Shards int }

func (f *emptyFn) ProcessElement(_ []byte, emit emitChunk) {
	for s := range f.Shards {
		emit(uint32(s), []byte{byte(taken)})
	}
}

// drawFn draws the participations of jobs, or their coins, on all cores. It emits events by shard
// of steps, and coins by bucket of owners.
type drawFn struct {
	Config Config

	participations, owners stream.Key
	process                sampling.Process
	workers                *workers
}

func (f *drawFn) Setup(ctx context.Context) (err error) {
	if f.participations, err = f.Config.key(ctx, drawPurpose); err != nil {
		return err
	}
	f.owners, err = f.Config.key(ctx, ownerPurpose)
	f.process = f.Config.Spec.Process()
	return err
}

// newDrawer makes the drawer of one goroutine: a sampler keeps state, and is not shared.
func (f *drawFn) newDrawer() *drawer {
	d := &drawer{src: stream.NewSource(f.participations), events: newEventPacker(f.Config.shards(), taken), examples: f.Config.Examples,
		rotation: f.Config.Spec.Rotation, pools: f.Config.Pools}
	d.sampler = f.process.Sampler(d.src)
	if f.Config.needsNames() {
		d.names = newNamePacker(d.events.shards)
	}
	if m := f.Config.Spec.MultiOwner; m != nil {
		d.coins = newCoinPacker(f.owners, f.Config.buckets(), m.MinSep)
	}
	return d
}

func (f *drawFn) StartBundle(_, _ emitChunk) { f.workers = startWorkers(f.newDrawer) }

// take returns a function that emits an output. The goroutine of the bundle calls it: Beam's
// emitters must not be called by others.
func (f *drawFn) take(ctx context.Context, events, coins emitChunk) func(output) error {
	return func(out output) error {
		for _, c := range out.events {
			events(c.bucket, c.bytes)
		}
		for _, c := range out.coins {
			coins(c.bucket, c.bytes)
		}
		examplesSampled.Add(ctx, out.examples)
		return out.err
	}
}

func (f *drawFn) finish(ctx context.Context, events, coins emitChunk) error {
	err := f.workers.drain(f.take(ctx, events, coins))
	f.stop()
	return err
}

func (f *drawFn) stop() {
	if f.workers != nil {
		f.workers.stop()
		f.workers = nil
	}
}

// Teardown ends the workers of a failed bundle, for which Beam does not call FinishBundle.
func (f *drawFn) Teardown() { f.stop() }

// drawRangeFn draws for numbered examples, which are their own rows.
type drawRangeFn struct{ drawFn }

func (f *drawRangeFn) ProcessElement(ctx context.Context, s span, events, coins emitChunk) error {
	take := f.take(ctx, events, coins)
	for done := int64(0); done < s.Count; done += jobRows {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := f.workers.submit(job{first: s.First + done, count: min(jobRows, s.Count-done)}, take); err != nil {
			return err
		}
	}
	return nil
}

func (f *drawRangeFn) FinishBundle(ctx context.Context, events, coins emitChunk) error {
	return f.finish(ctx, events, coins)
}

// drawTableFn draws for the rows of a table.
type drawTableFn struct {
	drawFn
	held      job
	heldBytes int
}

func (f *drawTableFn) ProcessElement(ctx context.Context, rows []byte, events, coins emitChunk) error {
	// Beam's elements are small here: jobs of several of them cost less to hand over.
	f.held.rows = append(f.held.rows, rows)
	f.heldBytes += len(rows)
	if f.heldBytes < jobBytes {
		return ctx.Err()
	}
	return f.submit(f.take(ctx, events, coins))
}

func (f *drawTableFn) submit(take func(output) error) error {
	err := f.workers.submit(f.held, take)
	f.held, f.heldBytes = job{}, 0
	return err
}

func (f *drawTableFn) FinishBundle(ctx context.Context, events, coins emitChunk) error {
	if err := f.submit(f.take(ctx, events, coins)); err != nil {
		return err
	}
	return f.finish(ctx, events, coins)
}

// excludeFn finds the coins that Algorithm 3 blocks, for one bucket of owners.
type excludeFn struct {
	Config Config

	shards *shards
}

func (f *excludeFn) Setup() { f.shards = f.Config.shards() }

func (f *excludeFn) ProcessElement(ctx context.Context, _ uint32, coins func(*[]byte) bool, emit emitChunk) (err error) {
	bucket := packed.Sorter{Dir: f.Config.TempDir}
	defer func() {
		if e := bucket.Close(); err == nil {
			err = e
		}
	}()
	if err := bucket.AddAll(coins); err != nil {
		return err
	}
	e := &excluder{minSep: f.Config.Spec.MultiOwner.MinSep, out: newEventPacker(f.shards, blocked), coins: packed.Spool{Dir: f.Config.TempDir}}
	defer func() { err = cmp.Or(err, e.coins.Close()) }()
	return e.exclude(&bucket, emit)
}

// writeFn writes the files of a shard of steps.
type writeFn struct {
	Config Config

	shards    *shards
	truncator *sampling.Truncator
}

func (f *writeFn) Setup(ctx context.Context) error {
	f.shards = f.Config.shards()
	if t := f.Config.Spec.Truncation; t != nil {
		key, err := f.Config.key(ctx, truncatePurpose)
		if err != nil {
			return err
		}
		f.truncator = t.Truncator(key)
	}
	return nil
}

func (f *writeFn) ProcessElement(ctx context.Context, shard uint32, chunks func(*[]byte) bool, emit func(string)) error {
	var files []manifest.File
	var err error
	// Rows of 4 bytes halve the memory of a shard and the size of its files.
	if f.Config.RowType() == manifest.DInt32 {
		files, err = writeShard[int32](ctx, f, int(shard), chunks)
	} else {
		files, err = writeShard[int64](ctx, f, int(shard), chunks)
	}
	if err != nil {
		return err
	}
	return manifestio.EmitFiles(files, emit)
}

func writeShard[R int32 | int64](ctx context.Context, f *writeFn, shard int, chunks func(*[]byte) bool) ([]manifest.File, error) {
	if f.Config.Spec.Owners != nil {
		return writeOwners[R](ctx, f, shard, chunks)
	}
	first := int(f.shards.start[shard])
	a := &assembly[R]{first: first, steps: int(f.shards.start[shard+1]) - first, truncator: f.truncator, ids: f.Config.IDs.Type}
	var b []byte
	for chunks(&b) {
		if err := a.add(b); err != nil {
			return nil, err
		}
	}
	l, err := a.batches()
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	sink := manifestio.BatchSink[R]{Dir: f.Config.Dir, Shard: shard, Shards: f.Config.Shards, First: first}
	if t := f.Config.Spec.Truncation; t != nil && t.Pad {
		sink.Pad = t.MaxBatchSize
	}
	files, err := sink.Write(l.starts, l.rows)
	if err == nil && f.Config.Parquet {
		id := func(row R, ids *ownergraph.IDs) { ids.AppendInt(int64(row)) }
		if f.Config.needsNames() {
			id = a.idsOf()
		}
		var file manifest.File
		file, err = sink.WriteLong(l.starts, l.rows, f.Config.IDs.Type, id)
		files = append(files, file)
	}
	return files, err
}

package formation

import (
	"cmp"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/packed"
	"minsep/internal/parallel"
	"minsep/internal/stream"
	"minsep/internal/transforms/progress"
	"minsep/sampling"
)

type emitChunk = func(uint32, []byte)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[resolveFn]())
	beam.RegisterDoFn(reflect.TypeFor[spanFn]())
	beam.RegisterDoFn(reflect.TypeFor[emptyFn]())
	beam.RegisterDoFn(reflect.TypeFor[drawRangeFn]())
	beam.RegisterDoFn(reflect.TypeFor[drawTableFn]())
	beam.RegisterDoFn(reflect.TypeFor[excludeFn]())
	beam.RegisterDoFn(reflect.TypeFor[drawOwnersFn]())
	beam.RegisterDoFn(reflect.TypeFor[measureFn]())
	beam.RegisterDoFn(reflect.TypeFor[excessFn]())
	beam.RegisterDoFn(reflect.TypeFor[keepFn]())
	beam.RegisterDoFn(reflect.TypeFor[piecesFn]())
	beam.RegisterDoFn(reflect.TypeFor[writeFn]())
	beam.RegisterDoFn(reflect.TypeFor[checkFn]())
	register.Emitter1[span]()
	register.Emitter1[string]()
	register.Emitter2[uint32, []byte]()
	register.Emitter1[[]byte]()
	register.Iter1[[]byte]()
}

// ExamplesSampled is the name of the counter of rows with drawn participations.
const ExamplesSampled = "examples sampled"

var examplesSampled = progress.New(ExamplesSampled)

// span is a range of rows that one element, and so one worker, draws.
type span struct{ First, Count int64 }

const (
	spanRows   = 1 << 20 // of a span
	jobRows    = 1 << 16 // of a job on one core
	jobBytes   = 1 << 20 // of encoded rows of a job
	roundBytes = 1 << 24 // of encoded rows that are held until their jobs are done together
)

// spanFn divides the rows into spans.
type spanFn struct{ Examples int64 }

func (f *spanFn) ProcessElement(_ []byte, emit func(span)) {
	for first := int64(0); first < f.Examples; first += spanRows {
		emit(span{first, min(spanRows, f.Examples-first)})
	}
}

// emptyFn emits an empty chunk for every cell, so that a shard in which nobody takes part has its
// files too: its steps are steps of the training.
type emptyFn struct{}

func (*emptyFn) ProcessElement(resolved []byte, emit emitChunk) error {
	var r Resolved
	if err := json.Unmarshal(resolved, &r); err != nil {
		return err
	}
	for cell := range r.Config.Shards * r.Config.Blocks {
		emit(uint32(cell), []byte{byte(taken)})
	}
	return nil
}

// drawFn draws the participations of jobs, or their coins, on all cores. It emits events by shard
// of steps, and coins, or the rows of owners that take part, by bucket of owners.
type drawFn struct {
	config                 *Config // nil before the first element
	participations, owners stream.Key
	process                sampling.Process
	drawers                sync.Pool // of *drawer
}

// begin makes the worker ready at its first element, with which the configuration comes.
func (f *drawFn) begin(ctx context.Context, resolved side) error {
	if f.config != nil {
		return nil
	}
	r, err := ReadResolved(resolved)
	if err != nil {
		return err
	}
	if f.participations, err = r.Config.key(ctx, drawPurpose); err != nil {
		return err
	}
	purpose := ownerPurpose
	if r.Config.Spec.Owners != nil { // who draw by their addresses
		purpose = samplePurpose
	}
	if f.owners, err = r.Config.key(ctx, purpose); err != nil {
		return err
	}
	f.config, f.process = &r.Config, r.Config.Spec.Process()
	return nil
}

// newDrawer makes the drawer of one goroutine.
func (f *drawFn) newDrawer() *drawer {
	d := &drawer{
		src:     stream.NewSource(f.participations),
		process: f.process,
		events:  newEventPacker(f.config.shards(), taken),
		config:  f.config,
	}
	d.words = d.src.Stream(stream.Address{})
	if f.config.needsNames() {
		d.names = newNamePacker(d.events.shards)
	}
	if f.config.Spec.MultiOwner != nil || f.config.Spec.Owners != nil {
		d.owners = newOwnerPacker(f.owners, f.config.buckets())
	}
	return d
}

// draw does jobs on all cores, then emits what they drew: Beam's emitters are for one goroutine. The
// output of a job does not depend on the goroutine that did it.
func (f *drawFn) draw(ctx context.Context, jobs []job, events, owners emitChunk) error {
	outputs := make([]output, len(jobs))
	errs := parallel.Each(len(jobs), f.config.Workers, func(i int) (err error) {
		d, _ := f.drawers.Get().(*drawer)
		if d == nil {
			d = f.newDrawer()
		}
		if outputs[i], err = d.draw(jobs[i]); err == nil {
			f.drawers.Put(d)
		}
		return cmp.Or(err, ctx.Err())
	})
	for i, out := range outputs {
		if errs[i] != nil {
			return errs[i]
		}
		emitAll(out.events, events)
		emitAll(out.owners, owners)
		examplesSampled.Add(ctx, out.examples)
	}
	return nil
}

// drawRangeFn draws for numbered examples, which are their own rows and owners.
type drawRangeFn struct{ drawFn }

func (f *drawRangeFn) ProcessElement(ctx context.Context, s span, resolved side, events emitChunk) error {
	if err := f.begin(ctx, resolved); err != nil {
		return err
	}
	var jobs []job
	for done := int64(0); done < s.Count; done += jobRows {
		jobs = append(jobs, job{first: s.First + done, count: min(jobRows, s.Count-done)})
	}
	return f.draw(ctx, jobs, events, nil)
}

// drawTableFn draws for the rows of a table.
type drawTableFn struct {
	drawFn
	held      [][]byte
	heldBytes int
	tally     tally
}

func (f *drawTableFn) ProcessElement(
	ctx context.Context,
	rows []byte,
	resolved side,
	events, owners emitChunk,
	_ func([]byte),
) error {
	if err := f.begin(ctx, resolved); err != nil {
		return err
	}
	if err := f.tally.add(rows); err != nil {
		return err
	}
	f.held = append(f.held, rows)
	f.heldBytes += len(rows)
	if f.heldBytes < roundBytes {
		return ctx.Err()
	}
	return f.drawHeld(ctx, events, owners)
}

// drawHeld draws for the held rows. Elements are small: a job of several of them makes larger chunks.
func (f *drawTableFn) drawHeld(ctx context.Context, events, owners emitChunk) error {
	var jobs []job
	for rows := range slices.Chunk(f.held, max(1, len(f.held)*jobBytes/f.heldBytes)) {
		jobs = append(jobs, job{rows: rows})
	}
	f.held, f.heldBytes = nil, 0
	return f.draw(ctx, jobs, events, owners)
}

func (f *drawTableFn) FinishBundle(
	ctx context.Context,
	_ side,
	events, owners emitChunk,
	tallies func([]byte),
) error {
	f.tally.emit(tallies)
	if len(f.held) == 0 {
		return nil
	}
	return f.drawHeld(ctx, events, owners)
}

// excludeFn finds the coins that Algorithm 3 blocks, for one bucket of owners.
type excludeFn struct{}

func (*excludeFn) ProcessElement(
	_ context.Context,
	_ uint32,
	coins func(*[]byte) bool,
	resolved side,
	emit emitChunk,
) (err error) {
	r, err := ReadResolved(resolved)
	if err != nil {
		return err
	}
	c := r.Config
	e := &excluder{
		minSep: c.Spec.MultiOwner.MinSep,
		out:    newEventPacker(c.shards(), blocked),
		coins:  packed.Spool{Dir: c.TempDir},
	}
	defer func() { err = cmp.Or(err, e.coins.Close()) }()
	return packed.Sort(c.TempDir, coins, func(bucket *packed.Sorter) error { return e.exclude(bucket, emit) })
}

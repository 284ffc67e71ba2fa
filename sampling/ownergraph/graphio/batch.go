package graphio

import (
	"context"

	"minsep/sampling/ownergraph"
)

// BatchEdges is about how many edges a batch holds: 64 KiB of integers.
const BatchEdges = 1 << 12

// Batch is a run of edges: example i belongs to owner i.
type Batch struct {
	ownergraph.Edges
	// SingleOwner: each example is its own owner, and Owners is empty.
	SingleOwner bool
	// Ownerless counts the examples without owners that were left out here, see [Options].SkipOwnerless.
	Ownerless int64
}

// batcher collects edges and hands full batches on. After a fault it hands nothing on.
type batcher struct {
	Batch
	faults
	ctx   context.Context
	split *Split
	emit  func(*Batch) error
	// before is where the split's first line begins: the lines of faults are counted from there until countFrom.
	before int64
}

func newBatcher(ctx context.Context, s *Split, emit func(*Batch) error) *batcher {
	b := &batcher{ctx: ctx, split: s, emit: emit}
	b.SingleOwner = s.SingleOwner
	b.reset()
	return b
}

func (b *batcher) reset() {
	b.Reset(b.split.ExampleType, b.split.OwnerType)
	b.Ownerless = 0
}

// full hands the batch on if it has reached its size.
func (b *batcher) full() error {
	if b.Examples.Len() < BatchEdges {
		return nil
	}
	return b.flush()
}

// flush hands on what is there, unless there were faults.
func (b *batcher) flush() error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	var err error
	if len(b.list) == 0 && (b.Examples.Len() > 0 || b.Ownerless > 0) {
		err = b.emit(&b.Batch)
	}
	b.reset()
	return err
}

// fault records a fault at a line and returns errTooMany when there is no room for another.
func (b *batcher) fault(f *Fault) error {
	f.File = b.split.Path
	if !b.add(f) {
		return errTooMany
	}
	return nil
}

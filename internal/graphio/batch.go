package graphio

import (
	"context"

	"minsep/internal/ownergraph"
)

// BatchEdges is about the number of edges of a batch: 64 KiB of integers.
const BatchEdges = 1 << 12

// Batch is a run of edges: example i belongs to owner i.
type Batch struct {
	ownergraph.Edges
	// SingleOwner: each example is its own owner, and Owners is empty.
	SingleOwner bool
	// Ownerless counts the examples without owners that were left out here, see
	// [Options].SkipOwnerless.
	Ownerless int64
}

// batcher collects edges and hands full batches on. After a fault it hands nothing on.
type batcher struct {
	Batch
	faults []error
	ctx    context.Context
	split  *Split
	emit   func(*Batch) error

	row    int64 // number of the next row, with row ids
	joined joinedScan
	owners [][]byte // of a record
}

func newBatcher(ctx context.Context, s *Split, emit func(*Batch) error) *batcher {
	b := &batcher{ctx: ctx, split: s, emit: emit}
	b.SingleOwner, b.row = s.SingleOwner, s.FirstRow
	b.joined.off, b.joined.within = s.OwnerSeparator == NoSeparator, s.divides()
	b.reset()
	return b
}

// appendRowID adds the number of the next row.
func (b *batcher) appendRowID(dst *ownergraph.IDs) {
	dst.AppendInt(b.row)
	b.row++
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

// flush hands on the edges so far, unless there were faults.
func (b *batcher) flush() error {
	if err := b.ctx.Err(); err != nil {
		return err
	}
	var err error
	if len(b.faults) == 0 && (b.Examples.Len() > 0 || b.Ownerless > 0) {
		err = b.emit(&b.Batch)
	}
	b.reset()
	return err
}

// fault records a fault at a line and returns errTooMany when there is no room for another.
func (b *batcher) fault(f *Fault) error {
	f.File, f.Number = b.split.Name, b.split.Number
	b.faults = append(b.faults, f)
	if len(b.faults) == MaxFaults {
		return errTooMany
	}
	return nil
}

// appendRow adds the edges of a record: its example, unless no column has examples, and its owners,
// unless each example is its own. place makes a fault of a column: 0 for examples, 1 for owners.
func (b *batcher) appendRow(example []byte, owners [][]byte, place func(column int) *Fault) *Fault {
	s := b.split
	edges := len(owners)
	switch {
	case s.SingleOwner:
		edges = 1
	case edges == 0 && s.SkipOwnerless:
		b.Ownerless++
		b.row++
		return nil
	case edges == 0:
		f := place(1)
		f.Found, f.Rule = "an example without owners", ownerlessRule
		return f
	}
	if s.RowIDs {
		b.appendRowID(&b.Examples)
	} else if f := b.appendValue(0, example, place); f != nil {
		return f
	}
	for range edges - 1 {
		b.Examples.AppendFrom(&b.Examples, b.Examples.Len()-1)
	}
	if s.SingleOwner {
		return nil
	}
	for _, owner := range owners {
		if f := b.appendValue(1, owner, place); f != nil {
			return f
		}
	}
	return nil
}

// appendValue adds an id to a column, as in appendRow.
func (b *batcher) appendValue(column int, id []byte, place func(column int) *Fault) *Fault {
	dst := &b.Examples
	if column == 1 {
		dst = &b.Owners
	}
	fault := func(found, rule string) *Fault {
		f := place(column)
		f.Found, f.Rule = found, rule
		return f
	}
	if k := appendText(dst, id, b.split.AsIs); k == empty && column == 1 {
		return fault(k.String(), ownerlessRule)
	} else if k != fits {
		return fault(k.String(), k.rule(dst.Type))
	}
	if column == 1 && dst.Type == ownergraph.String {
		return b.joined.look(id, func() *Fault { return place(column) })
	}
	return nil
}

package graphio

import (
	"bytes"
	"context"
	"fmt"

	"minsep/internal/ownergraph"
	"minsep/internal/words"
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
	// Warnings are places that are not faults: where a column of words has numbers that are kept as
	// they are written. They come with the last batch of a split, which may have no edges.
	Warnings []*Fault

	units int64 // see mostUnits
}

// batcher collects edges and hands full batches on. After a fault it hands nothing on.
type batcher struct {
	Batch
	faults
	ctx   context.Context
	split *Split
	emit  func(*Batch) error
	size  int64 // of the file
	taken int64 // units so far
	// before is the place at which the split's first line begins: lines of faults are counted from
	// there until countFrom.
	before int64

	folder  ownergraph.IDs // the id that the folder's name says, if it says one
	row     int64          // number of the next row, with row ids
	spelled [2]spelled     // by column
	joined  joinedScan
	values  [][]byte // the owners of a record
	noted   []*Fault // the warnings
}

func newBatcher(ctx context.Context, s *Split, size int64, emit func(*Batch) error) *batcher {
	b := &batcher{ctx: ctx, split: s, size: size, emit: emit}
	b.SingleOwner, b.row = s.SingleOwner, s.FirstRow
	b.joined.off, b.joined.within = s.OwnerSeparator == NoSeparator, s.divides()
	b.reset()
	return b
}

// takeFolder reads the id in the name of the folder.
func (b *batcher) takeFolder() *Fault {
	s := b.split
	for _, c := range []struct {
		value string
		t     ownergraph.IDType
		asIs  bool
	}{{s.FolderExample, s.ExampleType, s.ExampleAsIs}, {s.FolderOwner, s.OwnerType, s.OwnerAsIs}} {
		if c.value == "" {
			continue
		}
		b.folder.Reset(c.t)
		if k := appendText(&b.folder, []byte(c.value), c.asIs); k != fits {
			return &Fault{Found: "in the folder's name, " + k.String(), Rule: k.rule(c.t)}
		}
	}
	if s.FolderOwner == "" || s.OwnerSeparator == NoSeparator || s.OwnerType != ownergraph.String {
		return nil
	}
	if owner := []byte(s.FolderOwner); shape(owner) != "" || len(s.owners(nil, owner)) > 1 {
		return &Fault{
			Found: "in the folder's name, several owners in one value",
			Rule:  "they would count as one owner: write a column of owners, or, of an id that only looks so, set --owner-separator none",
		}
	}
	return nil
}

// appendAbsent adds the id of the next row, whose example is in no column of the file.
func (b *batcher) appendAbsent(dst *ownergraph.IDs) {
	if !b.split.RowIDs {
		dst.AppendFrom(&b.folder, 0)
		return
	}
	dst.AppendInt(b.row)
	b.row++
}

// finish hands on the rest, and the warnings.
func (b *batcher) finish() error {
	b.Warnings = b.noted
	return b.flush()
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
	b.weigh()
	if b.taken += b.units; b.taken > mostUnits(b.size) {
		b.fault(dense(b.size))
		b.reset()
		return errTooMany // whatever follows
	}
	err := b.compareFolder()
	if err == nil && len(b.list) == 0 && (b.Examples.Len() > 0 || b.Ownerless > 0 || len(b.Warnings) > 0) {
		err = b.emit(&b.Batch)
	}
	b.reset()
	return err
}

// compareFolder holds the ids of a column that the folder's name gives too against the name.
func (b *batcher) compareFolder() error {
	column := &b.Owners
	if b.split.FolderExample != "" {
		column = &b.Examples
	}
	for i := range column.Len() {
		if b.split.InBoth && column.Compare(i, &b.folder, 0) != 0 {
			return b.fault(
				&Fault{
					Found: "another id in the file than in the folder's name",
					Rule:  "a column that both have must agree: remove one of the two",
				},
			)
		}
	}
	return nil
}

// fault records a fault at a line and returns errTooMany when there is no room for another.
func (b *batcher) fault(f *Fault) error {
	f.File, f.Number = b.split.Path, b.split.Number
	if !b.add(f) {
		return errTooMany
	}
	return nil
}

// settle decides on the numbers that were kept: in a column of mostly words they are words, and a
// warning says so. Else they are faults.
func (b *batcher) settle() {
	for i := range b.spelled {
		s := &b.spelled[i]
		switch {
		case s.odd == 0:
		case s.words >= wordsPerNumber*(s.numbers+s.odd):
			w := *s.faults[0]
			w.File, w.Number = b.split.Path, b.split.Number
			w.Found = fmt.Sprintf(
				"%s from here on that %s no plain %s, in a column of words",
				words.Count(int(s.odd), "number"),
				map[bool]string{true: "is", false: "are"}[s.odd == 1],
				map[bool]string{true: "integer", false: "integers"}[s.odd == 1],
			)
			w.Rule = "each is kept as it is written, as a string"
			b.noted = append(b.noted, &w)
		default:
			for _, f := range s.faults {
				if b.fault(f) != nil {
					break
				}
			}
		}
	}
}

// weigh returns the number of units of the batch. The id in the name of a folder is not counted:
// the file does not store it.
func (b *batcher) weigh() {
	text := 0
	if !b.split.lacksExamples() {
		text += b.Examples.TextBytes()
	}
	if b.split.FolderOwner == "" {
		text += b.Owners.TextBytes()
	}
	b.units = int64(b.Examples.Len() + text/unitText)
}

// appendField adds text to a column (0 for examples, 1 for owners). place makes a fault of its place.
func (b *batcher) appendField(column int, field []byte, place func() *Fault) *Fault {
	dst, asIs := &b.Examples, b.split.ExampleAsIs
	if column == 1 {
		dst, asIs = &b.Owners, b.split.OwnerAsIs
	}
	k := appendText(dst, field, asIs)
	fault := func() *Fault {
		f := place()
		f.Found, f.Rule = k.String(), k.rule(dst.Type)
		if column == 1 && k == empty {
			f.Rule = ownerlessRule
		}
		return f
	}
	if k != fits && (dst.Type != ownergraph.String || !k.isNumber()) {
		return fault()
	}
	if column == 1 && dst.Type == ownergraph.String {
		if joined := b.joined.look(field); joined != nil {
			f := place()
			f.Found, f.Rule = joined.Found, joined.Rule
			return f
		}
	}
	// Whether a number such as 07 is a word like the others, or 7 in another spelling, is decided
	// for the whole column: see settle.
	if dst.Type == ownergraph.String && !asIs {
		b.spelled[column].count(field, k, fault)
	}
	if k != fits {
		dst.AppendBytes(field)
	}
	return nil
}

// countFrom turns line numbers within the split into line numbers of the file.
func (b *batcher) countFrom(f File) {
	if len(b.list)+len(b.noted) == 0 || b.before == 0 {
		return
	}
	lines := int64(0)
	buf := make([]byte, lineBuffer)
	for at := int64(0); at < b.before; {
		n, err := f.ReadAt(buf[:min(int64(len(buf)), b.before-at)], at)
		lines += int64(bytes.Count(buf[:n], []byte{'\n'}))
		at += int64(n)
		if err != nil {
			break
		}
	}
	for _, err := range b.list {
		if fault := err.(*Fault); fault.Line > 0 {
			fault.Line += lines
		}
	}
	for _, warning := range b.noted {
		warning.Line += lines
	}
}

package formation

import (
	"cmp"
	"context"
	"encoding/binary"
	"encoding/json"
	"errors"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/packed"
)

// size is what a cell has in a step.
type size struct{ Units, Rows int } // units: owners where they take part, else rows

// cellSizes are the sizes of a cell in each step, an element of [Drawn.Sizes] as JSON.
type cellSizes struct {
	Cell  uint32
	Sizes []size
}

func (b *batches) size(t int) size {
	units := b.at(t)
	if b.brought == nil {
		return size{len(units), len(units)}
	}
	rows := 0
	for _, u := range units {
		rows += int(b.brought[u+1])
	}
	return size{len(units), rows}
}

func (b *batches) sizes() (list []size) {
	for t := range len(b.starts) - 1 {
		list = append(list, b.size(t))
	}
	return list
}

var errSizes = errors.New("the sizes of a cell are not those that were measured")

// readSizes returns the sizes of the cells of the shard of a cell, by block and step.
func readSizes(c Config, cell uint32, sizes side) ([][]size, error) {
	blocks := uint32(c.Blocks)
	all := make([][]size, blocks)
	for b := []byte(nil); sizes(&b); {
		var of cellSizes
		if err := json.Unmarshal(b, &of); err != nil {
			return nil, err
		}
		if of.Cell/blocks == cell/blocks {
			all[of.Cell%blocks] = of.Sizes
		}
	}
	if slices.ContainsFunc(all, func(list []size) bool { return list == nil }) {
		return nil, errSizes
	}
	return all, nil
}

func emitSizes(cell uint32, list []size, emit func([]byte)) error {
	b, err := json.Marshal(cellSizes{cell, list})
	emit(b)
	return err
}

// measure adds the measuring of all cells, as they are after the truncation: which entries of a step
// stay depends on those of all its cells.
func (d *Drawn) measure(s beam.Scope, truncated bool) {
	d.Sizes = d.Each(s, &measureFn{})
	if truncated {
		shards := beam.GroupByKey(s, d.Each(s, &excessFn{}))
		d.Sizes = beam.ParDo(s, &keepFn{}, shards, beam.SideInput{Input: d.Resolved}, beam.SideInput{Input: d.Sizes})
		d.Sizes = d.Each(s, &measureFn{Cut: true})
	}
}

// among returns the sizes of the cells of a shard, by block and step, and what truncates one of them.
// It returns nil for a shard of one cell, and without truncation.
func (c Config) among(ctx context.Context, cell uint32, sizes side) (t *truncator, all [][]size, err error) {
	if t, err = c.truncator(ctx); err != nil || c.Blocks == 1 {
		return t, nil, err
	}
	if all, err = readSizes(c, cell, sizes); err == nil && t != nil {
		t.sizes = all[int(cell)%c.Blocks]
	}
	return t, all, err
}

// measureFn emits the sizes of a cell: before the truncation, or cut to the units of sizes.
type measureFn struct{ Cut bool }

func (f *measureFn) ProcessElement(
	ctx context.Context,
	cell uint32,
	chunks, resolved, sizes side,
	emit func([]byte),
) error {
	c, err := readConfig(resolved)
	if err != nil {
		return err
	}
	var t *truncator
	if f.Cut {
		if t, _, err = c.among(ctx, cell, sizes); err != nil {
			return err
		}
	}
	b, err := c.assemble(ctx, cell, chunks, t)
	if err != nil {
		return err
	}
	return emitSizes(cell, b.sizes(), emit)
}

// readConfig returns a configuration without the ids of rows.
func readConfig(resolved side) (Config, error) {
	r, err := ReadResolved(resolved)
	r.Config.Names = false
	return r.Config, err
}

// An excess record is the step, counted from the first of the shard, 4 bytes, the complement of a
// priority, 8 bytes, and that of the block, 4 bytes: in this order units leave a batch that is too
// large.

// excessFn emits, for each step with more units than may be, as many of the units of a cell, those with
// the largest priorities.
type excessFn struct{}

func (*excessFn) ProcessElement(
	ctx context.Context,
	cell uint32,
	chunks, resolved, sizes side,
	emit emitChunk,
) error {
	c, err := readConfig(resolved)
	if err != nil {
		return err
	}
	t, all, err := c.among(ctx, cell, sizes)
	if err != nil {
		return err
	}
	blocks, more := uint32(c.Blocks), excess(c, all)
	packer := packed.NewPacker(c.Shards)
	t.excess = func(step int, priorities []uint64) {
		slices.Sort(priorities)
		n := len(priorities)
		for _, priority := range priorities[n-min(n, more[step]):] {
			b := binary.BigEndian.AppendUint32(nil, uint32(step))
			b = binary.BigEndian.AppendUint64(b, ^priority)
			packer.Add(cell/blocks, binary.BigEndian.AppendUint32(b, ^(cell%blocks)), emit)
		}
	}
	emit(cell/blocks, nil) // every shard has its sizes
	_, err = c.assemble(ctx, cell, chunks, t)
	return cmp.Or(err, packer.Flush(emit))
}

// excess returns how many units leave each step of a shard.
func excess(c Config, all [][]size) []int {
	more := make([]int, len(all[0]))
	for t := range more {
		for _, of := range all {
			more[t] += of[t].Units
		}
		more[t] = max(0, more[t]-c.Spec.Truncation.MaxBatchSize)
	}
	return more
}

// keepFn emits the number of units that stay in each cell of a shard, as sizes whose rows do not count.
type keepFn struct{}

func (*keepFn) ProcessElement(
	_ context.Context,
	shard uint32,
	chunks, resolved, sizes side,
	emit func([]byte),
) error {
	c, err := readConfig(resolved)
	if err != nil {
		return err
	}
	blocks := uint32(c.Blocks)
	all, err := readSizes(c, shard*blocks, sizes)
	if err != nil {
		return err
	}
	more := excess(c, all)
	err = packed.Sort(c.TempDir, chunks, func(s *packed.Sorter) error {
		return s.Each(func(b []byte) error {
			if step := binary.BigEndian.Uint32(b); more[step] > 0 {
				more[step]--
				all[^binary.BigEndian.Uint32(b[12:])][step].Units--
			}
			return nil
		})
	})
	for block, list := range all {
		err = cmp.Or(err, emitSizes(shard*blocks+uint32(block), list, emit))
	}
	return err
}

package formation

import (
	"encoding/binary"
	"errors"
	"slices"

	"minsep/internal/manifest"
	"minsep/internal/ownergraph"
)

// kind is the kind of a chunk's events.
type kind byte

const (
	taken   kind = iota // row takes part in step, unless an event of kind blocked removes it
	blocked             // row does not take part in step
	named               // ids of rows, for the long form of the files
)

// A chunk of events is one byte of kind, then for each event the difference of its row from the
// previous row (signed varint) and its step, counted from the first of the shard (varint). If owners
// take part, the row is the first one of an owner, and a list of what each row that the owner brings has
// more than it follows ([AppendInts]). A chunk of names is the byte of kind and one encoded
// [ownergraph.Edges].

var errChunk = errors.New("malformed chunk of events")

// shards divides the steps of a training run into shards of consecutive steps, and each shard into
// cells: blocks of consecutive rows. One worker assembles a cell.
type shards struct {
	steps, count int
	blocks       int     // of a shard
	blockRows    int64   // of a block
	of           []int32 // by step: its shard
	start        []int32 // by shard: its first step
}

func newShards(steps, count, blocks int, rows int64) *shards {
	s := &shards{steps: steps, count: count, blocks: blocks, of: make([]int32, steps), start: make([]int32, count+1)}
	s.blockRows = (rows + int64(blocks) - 1) / int64(blocks)
	for i := range count {
		s.start[i] = int32(manifest.ShardStart(steps, count, i))
	}
	s.start[count] = int32(steps)
	for i := range count {
		for t := s.start[i]; t < s.start[i+1]; t++ {
			s.of[t] = int32(i)
		}
	}
	return s
}

// cells is the number of cells.
func (s *shards) cells() int { return s.count * s.blocks }

// cell returns the cell of a row at a step.
func (s *shards) cell(row int64, step int32) int32 {
	if s.blocks == 1 {
		return s.of[step]
	}
	return s.of[step]*int32(s.blocks) + int32(row/s.blockRows)
}

// chunk is an element of a shuffle: bytes and their bucket.
type chunk struct {
	bucket uint32
	bytes  []byte
}

func emitAll(chunks []chunk, emit emitChunk) {
	for _, c := range chunks {
		emit(c.bucket, c.bytes)
	}
}

// eventPacker gathers events of one kind into one chunk for each cell. flush reuses its buffers.
type eventPacker struct {
	*shards
	kind    kind
	buffers [][]byte
	last    []int64 // row of the last event of each buffer
}

func newEventPacker(s *shards, k kind) *eventPacker {
	return &eventPacker{shards: s, kind: k, buffers: make([][]byte, s.cells()), last: make([]int64, s.cells())}
}

// add adds an event to the cell of its row.
func (p *eventPacker) add(row int64, step int32) { p.addTo(p.cell(row, step), row, step) }

func (p *eventPacker) addTo(cell int32, row int64, step int32) {
	b := p.buffers[cell]
	if len(b) == 0 {
		b = append(b, byte(p.kind))
		p.last[cell] = 0
	}
	b = binary.AppendVarint(b, row-p.last[cell])
	p.buffers[cell] = binary.AppendUvarint(b, uint64(step-p.start[p.of[step]]))
	p.last[cell] = row
}

// flush appends copies of the gathered events to dst.
func (p *eventPacker) flush(dst []chunk) []chunk {
	for cell, b := range p.buffers {
		if len(b) > 0 {
			dst = append(dst, chunk{uint32(cell), slices.Clone(b)})
			p.buffers[cell] = b[:0]
		}
	}
	return dst
}

// namePacker gathers, for each cell, the ids of the rows with events in it.
type namePacker struct {
	names []ownergraph.Edges // by cell: ids and, in place of owners, row numbers
}

func newNamePacker(s *shards) *namePacker { return &namePacker{make([]ownergraph.Edges, s.cells())} }

// add adds the id of row to cells, once where the same cell follows.
func (p *namePacker) add(ids *ownergraph.IDs, i int, row int64, cells []int32) {
	last := int32(-1)
	for _, cell := range cells {
		if cell == last {
			continue
		}
		last = cell
		n := &p.names[last]
		if n.Len() == 0 {
			n.Reset(ids.Type, ownergraph.Int64)
		} else if n.Owners.Int(n.Len()-1) == row {
			continue
		}
		n.Examples.AppendFrom(ids, i)
		n.Owners.AppendInt(row)
	}
}

// flush appends chunks of the gathered names to dst.
func (p *namePacker) flush(dst []chunk) []chunk {
	for cell := range p.names {
		n := &p.names[cell]
		if n.Len() == 0 {
			continue
		}
		b := n.Owners.AppendBinary(n.Examples.AppendBinary([]byte{byte(named)}))
		dst = append(dst, chunk{uint32(cell), b})
		n.Reset(n.Examples.Type, ownergraph.Int64)
	}
	return dst
}

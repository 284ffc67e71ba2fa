package manifest

import (
	"context"
	"errors"
	"fmt"

	"minsep/internal/store"
	"minsep/internal/strictjson"
	"minsep/sampling/ownergraph"
	"minsep/sampling/ownergraph/idcolumn"
)

// MaterializedFormat is the format of a folder of examples in the order of the steps.
const MaterializedFormat = "minsep-materialized/1"

// FileColumn is the name of the column of file names, if each example is a file of its own.
const FileColumn = "file"

// MaterializedParams are the parameters on which the files of examples depend, besides the key, the
// batches and the data.
type MaterializedParams struct {
	IDColumn string `json:"id_column"`     // of the data
	Pad      int    `json:"pad,omitempty"` // every step is padded to a multiple of this, at least one multiple; 0: no padding
}

// MaterializedFacts are the facts in the index of a folder of examples in the order of the steps.
type MaterializedFacts struct {
	Steps   int      `json:"steps"`            // at least 1
	Shards  int      `json:"shards"`           // shard s holds the steps [ShardStart(s), ShardStart(s+1))
	Owners  bool     `json:"owners,omitempty"` // owners take part: there is a column owner
	Columns []string `json:"columns"`          // of the data, after step, slot, row and owner
}

// MaxPad is the largest Pad.
const MaxPad = 1 << 24

// MaterializedName returns the name of a shard's file.
func MaterializedName(shard, shards int) string {
	return fmt.Sprintf("examples-%05d-of-%05d.parquet", shard, shards)
}

// Materialized is an open folder of examples in the order of the steps.
type Materialized struct {
	Dir    string             // the folder
	Index  *Index             // as it was read
	Params MaterializedParams // from the index
	Facts  MaterializedFacts  // from the index
}

// OpenMaterialized opens a folder of examples in the order of the steps. It checks the index, and
// the names and sizes of the files.
func OpenMaterialized(ctx context.Context, dir string) (*Materialized, error) {
	ix, err := Open(ctx, dir, MaterializedFormat)
	if err != nil {
		return nil, err
	}
	m := &Materialized{Dir: dir, Index: ix}
	if err := errors.Join(strictjson.Unmarshal(ix.Params, &m.Params), strictjson.Unmarshal(ix.Facts, &m.Facts)); err != nil {
		return nil, fmt.Errorf("manifest: %s: %w", dir, err)
	}
	if f := m.Facts; f.Steps < 1 || f.Shards < 1 || f.Shards > f.Steps || f.Shards != len(ix.Files) || m.Params.Pad < 0 || m.Params.Pad > MaxPad {
		return nil, fmt.Errorf("manifest: %s: has %d files for %d shards of %d steps", dir, len(ix.Files), f.Shards, f.Steps)
	}
	var faults Faults
	for i, f := range ix.Files {
		if name := MaterializedName(i, m.Facts.Shards); f.Name != name {
			faults.add(fmt.Errorf("manifest: %s: has the file %s where %s is expected", dir, f.Name, name))
		}
	}
	return m, faults.err()
}

// Entry is an entry of a step, without its example.
type Entry struct {
	Step  int   // from 0
	Slot  int   // its place in the step, from 0
	Row   int64 // of the example table; -1 for padding
	Owner int64 // number of the owner in the step, -1 for padding; 0 if examples take part
}

// Entries returns a reader of all entries, which the caller must close.
func (m *Materialized) Entries(ctx context.Context) *EntryReader {
	r := &EntryReader{ctx: ctx, of: m, names: []string{"step", "slot", "row", "owner"}}
	if !m.Facts.Owners {
		r.names = r.names[:3]
	}
	return r
}

// EntryReader reads the entries of a folder in order, file after file.
type EntryReader struct {
	ctx   context.Context
	of    *Materialized
	names []string // of the columns that are read

	shard   int // of the next file
	stored  store.File
	file    *idcolumn.File // nil before the first file and after the last one
	group   int            // row group that is read
	left    int64          // rows of the group that are not held yet
	readers []*idcolumn.Reader
	held    [4]ownergraph.IDs // by column
	at      int               // index of the next entry among those held
	entries []Entry
}

// Step returns the entries of a step. Steps must be asked for in ascending order. The entries are
// valid until the next call. It refuses entries of an earlier step or of another file's step, and
// more than most entries: even a small file can claim any number of them.
func (r *EntryReader) Step(step, most int) ([]Entry, error) {
	r.entries = r.entries[:0]
	for {
		e, more, err := r.peek()
		if err != nil || !more || e.Step > step {
			return r.entries, err
		}
		if e.Step < step {
			return nil, invalid(fmt.Errorf("manifest: %s: the steps do not ascend", r.name()))
		}
		if len(r.entries) == most {
			return nil, invalid(fmt.Errorf("manifest: %s: a step has more entries than its batch", r.name()))
		}
		r.entries = append(r.entries, e)
		r.at++
	}
}

func (r *EntryReader) name() string { return MaterializedName(max(0, r.shard-1), r.of.Facts.Shards) }

// peek returns the next entry without taking it; more is false at the end.
func (r *EntryReader) peek() (e Entry, more bool, err error) {
	for r.at == r.held[0].Len() {
		if more, err := r.fill(); err != nil || !more {
			return e, false, err
		}
	}
	e = Entry{Step: int(r.held[0].Int(r.at)), Slot: int(r.held[1].Int(r.at)), Row: r.held[2].Int(r.at)}
	if len(r.names) > 3 {
		e.Owner = r.held[3].Int(r.at)
	}
	facts := r.of.Facts
	if e.Step < ShardStart(facts.Steps, facts.Shards, r.shard-1) || e.Step >= ShardStart(facts.Steps, facts.Shards, r.shard) {
		return e, false, invalid(fmt.Errorf("manifest: %s: has a step of another file", r.name()))
	}
	return e, true, nil
}

// fill holds the next entries of the row group, or moves to the next row group or file. more is
// false at the end.
func (r *EntryReader) fill() (more bool, err error) {
	switch {
	case r.left > 0:
		return true, r.read()
	case r.file != nil && r.group+1 < r.file.Groups():
		return true, r.open(r.group + 1)
	}
	if err := r.Close(); err != nil || r.shard == r.of.Facts.Shards {
		return false, err
	}
	r.shard++
	if r.stored, err = store.Open(r.ctx, store.Join(r.of.Dir, r.name())); err != nil {
		return false, fmt.Errorf("manifest: %w", err)
	}
	if r.file, err = idcolumn.Open(r.stored, r.stored.Size()); err != nil {
		return false, r.fault(err)
	}
	if r.file.Groups() > 0 {
		return true, r.open(0)
	}
	return true, nil
}

func (r *EntryReader) fault(err error) error {
	return invalid(fmt.Errorf("manifest: %s: %w", r.name(), err))
}

// open opens the columns of a row group.
func (r *EntryReader) open(group int) error {
	r.readers = r.readers[:0]
	top := r.file.Top()
	for i, name := range r.names {
		if i >= len(top) || top[i].Name() != name {
			return r.fault(fmt.Errorf("the first columns must be %v", r.names))
		}
		c, err := r.file.Column(top[i])
		if err == nil && (c.List || c.Type != ownergraph.Int64) {
			err = fmt.Errorf("column %s must hold integers", name)
		}
		if err == nil {
			_, err = r.file.Check(c, group)
		}
		if err != nil {
			return r.fault(err)
		}
		r.readers = append(r.readers, r.file.Reader(c, group))
	}
	r.group, r.left = group, r.file.GroupRows(group)
	return nil
}

func (r *EntryReader) read() error {
	n := int(min(r.left, 1<<12))
	for i, reader := range r.readers {
		r.held[i].Reset(ownergraph.Int64)
		if _, err := reader.Fill(&r.held[i], n); err != nil {
			return r.fault(err)
		}
	}
	r.at = 0
	r.left -= int64(n)
	return r.ctx.Err()
}

// Close closes the open file.
func (r *EntryReader) Close() error {
	r.readers = r.readers[:0]
	r.file, r.group, r.left, r.at = nil, 0, 0, 0
	for i := range r.held {
		r.held[i].Reset(ownergraph.Int64)
	}
	if r.stored == nil {
		return nil
	}
	stored := r.stored
	r.stored = nil
	return stored.Close()
}

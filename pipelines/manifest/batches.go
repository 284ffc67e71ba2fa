package manifest

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"minsep/internal/store"
)

// BatchesFormat is the format of a folder of batches.
const BatchesFormat = "minsep-batches/1"

// PaddingRow stands in a padded batch where there is no example.
const PaddingRow = -1

// BatchesFacts are the facts in the index of a folder of batches.
type BatchesFacts struct {
	Examples  int64  `json:"examples"` // rows of the example table: every row is in [0, Examples)
	Steps     int    `json:"steps"`
	Shards    int    `json:"shards"`               // shard s holds the steps [ShardStart(s), ShardStart(s+1))
	BatchSize int    `json:"batch_size,omitempty"` // of every batch, where batches are padded
	RowType   DType  `json:"row_type"`
	RowsOf    string `json:"rows_of"` // the table that rows number: "bounded" beside this folder, or "range": the ids 0…Examples-1 themselves
}

// Tables that rows number.
const (
	RowsOfBounded = "bounded"
	RowsOfRange   = "range"
)

// ShardStart is the first step of a shard: steps are split evenly.
func ShardStart(steps, shards, shard int) int { return steps * shard / shards }

// IndptrName and RowsName are the names of a shard's files.
func IndptrName(shard, shards int) string {
	return fmt.Sprintf("indptr-%05d-of-%05d.npy", shard, shards)
}

// RowsName is the name of the file that holds a shard's rows.
func RowsName(shard, shards int) string { return fmt.Sprintf("rows-%05d-of-%05d.npy", shard, shards) }

// Batches is a folder of batches that has been opened.
type Batches struct {
	Dir   string
	Index *Index
	Facts BatchesFacts
}

// OpenBatches opens a folder of batches and checks its index against its files' names and sizes.
func OpenBatches(ctx context.Context, dir string) (*Batches, error) {
	ix, err := Open(ctx, dir, BatchesFormat)
	if err != nil {
		return nil, err
	}
	b := &Batches{Dir: dir, Index: ix}
	d := json.NewDecoder(bytes.NewReader(ix.Facts))
	d.DisallowUnknownFields()
	if err := d.Decode(&b.Facts); err != nil {
		return nil, fmt.Errorf("manifest: %s: facts: %w", dir, err)
	}
	f := b.Facts
	if f.Examples < 0 || f.Steps < 1 || f.Shards < 1 || f.Shards > f.Steps || (f.RowType != DInt32 && f.RowType != DInt64) ||
		(f.RowsOf != RowsOfBounded && f.RowsOf != RowsOfRange) {
		return nil, fmt.Errorf("manifest: %s: facts make no sense: %+v", dir, f)
	}
	listed := make(map[string]bool, len(ix.Files))
	for _, file := range ix.Files {
		listed[file.Name] = true
	}
	for s := range f.Shards {
		for _, name := range []string{IndptrName(s, f.Shards), RowsName(s, f.Shards)} {
			if !listed[name] {
				err = errors.Join(err, fmt.Errorf("manifest: %s: %s is not in the index", dir, name))
			}
		}
	}
	return b, err
}

// Each calls f with the rows of every step in order. The slice is used again for the next step.
func (b *Batches) Each(ctx context.Context, f func(step int, rows []int64) error) error {
	for s := range b.Facts.Shards {
		if err := b.eachOf(ctx, s, f); err != nil {
			return fmt.Errorf("manifest: shard %d: %w", s, err)
		}
	}
	return nil
}

func (b *Batches) eachOf(ctx context.Context, shard int, f func(step int, rows []int64) error) error {
	shards := b.Facts.Shards
	first, end := ShardStart(b.Facts.Steps, shards, shard), ShardStart(b.Facts.Steps, shards, shard+1)
	indptr, err := b.open(ctx, IndptrName(shard, shards))
	if err != nil {
		return err
	}
	defer indptr.Close()
	if indptr.Len() != end-first+1 {
		return fmt.Errorf("indptr has %d entries, its steps need %d", indptr.Len(), end-first+1)
	}
	starts := make([]int64, indptr.Len())
	if err := indptr.Read(starts); err != nil {
		return err
	}
	all, err := b.open(ctx, RowsName(shard, shards))
	if err != nil {
		return err
	}
	defer all.Close()
	if all.dtype != b.Facts.RowType {
		return fmt.Errorf("rows are %s, the index says %s", all.dtype, b.Facts.RowType)
	}
	if starts[0] != 0 || !slices.IsSorted(starts) || starts[len(starts)-1] != int64(all.Len()) {
		return errors.New("indptr does not rise from 0 to the number of rows")
	}
	var rows []int64
	for t := range end - first {
		n := int(starts[t+1] - starts[t])
		rows = slices.Grow(rows[:0], n)[:n]
		if err := all.Read(rows); err != nil {
			return err
		}
		if err := f(first+t, rows); err != nil {
			return err
		}
	}
	return nil
}

type npyFile struct {
	*NPYInts
	io.Closer
}

func (b *Batches) open(ctx context.Context, name string) (npyFile, error) {
	f, err := store.Open(ctx, store.Join(b.Dir, name))
	if err != nil {
		return npyFile{}, err
	}
	ints, err := NewNPYInts(bufio.NewReaderSize(store.Reader(f), 1<<18), f.Size())
	if err == nil {
		return npyFile{ints, f}, nil
	}
	return npyFile{}, errors.Join(fmt.Errorf("%s: %w", name, err), f.Close())
}

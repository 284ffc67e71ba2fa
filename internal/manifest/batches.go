package manifest

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"

	"minsep/internal/store"
	"minsep/internal/strictjson"
	"minsep/sampling"
)

// Formats of a folder of batches. If owners take part, an additional file says which rows belong to
// the same owner. A reader that does not know the file would clip each example on its own, so this
// is a separate format, which older readers refuse.
const (
	BatchesFormat      = "minsep-batches/1"
	OwnerBatchesFormat = "minsep-batches/1.1"
)

// BatchesFormatOf returns the format for the batches of a sampler.
func BatchesFormatOf(s sampling.Spec) string {
	if s.Owners != nil {
		return OwnerBatchesFormat
	}
	return BatchesFormat
}

// BatchesFacts are the facts in the index of a folder of batches.
type BatchesFacts struct {
	Examples  int64 `json:"examples"`             // rows of the example table: every row is in [0, Examples)
	Steps     int   `json:"steps"`                // at least 1
	Shards    int   `json:"shards"`               // shard s holds the steps [ShardStart(s), ShardStart(s+1))
	BatchSize int   `json:"batch_size,omitempty"` // entries of every batch, where batches are padded
	// ExpectedBatchSize is the expected number of rows of a batch, or of owners if they take part,
	// before a maximum batch size cuts it: the divisor of sums of clipped gradients. It is public,
	// since it follows from the parameters and the number of examples or owners.
	ExpectedBatchSize float64 `json:"expected_batch_size"`

	// The fields below are set if owners take part. They are public.

	Owners           int64   `json:"owners,omitempty"`             // of the example table
	ExamplesPerOwner int     `json:"examples_per_owner,omitempty"` // largest number of examples that an owner brings; with padding, entries of each owner
	ExpectedExamples float64 `json:"expected_examples,omitempty"`  // expected rows of a batch, before a maximum batch size cuts it

	RowType DType  `json:"row_type"` // DInt32 or DInt64
	RowsOf  string `json:"rows_of"`  // the table that rows number: "bounded" beside this folder, or "range": the ids 0…Examples-1 themselves
}

// RowType returns the type of row numbers in the files of a table with so many rows.
func RowType(rows int64) DType {
	if rows <= 1<<31 {
		return DInt32
	}
	return DInt64
}

// Tables that rows number.
const (
	RowsOfBounded = "bounded"
	RowsOfRange   = "range"
)

// ShardStart returns the first step of a shard. Shards differ by at most one step.
func ShardStart(steps, shards, shard int) int { return steps * shard / shards }

// IndptrName returns the name of the file with the bounds of each step's rows in a shard.
func IndptrName(shard, shards int) string {
	return fmt.Sprintf("indptr-%05d-of-%05d.npy", shard, shards)
}

// RowsName returns the name of the file with a shard's rows.
func RowsName(shard, shards int) string { return fmt.Sprintf("rows-%05d-of-%05d.npy", shard, shards) }

// OwnersName returns the name of the file with the bounds of each owner's rows in a shard.
func OwnersName(shard, shards int) string {
	return fmt.Sprintf("owners-%05d-of-%05d.npy", shard, shards)
}

// Batches is an open folder of batches.
type Batches struct {
	Dir   string       // the folder
	Index *Index       // as it was read
	Facts BatchesFacts // from the index
}

// OpenBatches opens a folder of batches. It checks the index, and the names and sizes of the files,
// but not their contents: see [Index.Verify].
func OpenBatches(ctx context.Context, dir string) (*Batches, error) {
	ix, err := Open(ctx, dir, BatchesFormat, OwnerBatchesFormat)
	if err != nil {
		return nil, err
	}
	b := &Batches{Dir: dir, Index: ix}
	if err := strictjson.Unmarshal(ix.Facts, &b.Facts); err != nil {
		return nil, Invalid(fmt.Errorf("%s: facts: %w", dir, err))
	}
	f := b.Facts
	if f.Examples < 0 || f.Steps < 1 || f.Shards < 1 || f.Shards > f.Steps || (f.RowType != DInt32 && f.RowType != DInt64) ||
		(f.RowsOf != RowsOfBounded && f.RowsOf != RowsOfRange) ||
		(f.Owners > 0) != b.OfOwners() ||
		(f.ExamplesPerOwner > 0) != b.OfOwners() {
		text, err := json.Marshal(f)
		return nil, Invalid(errors.Join(fmt.Errorf("%s: invalid facts: %s", dir, text), err))
	}
	if 2*int64(f.Shards) > int64(len(ix.Files)) { // checked before names are made: the number of shards may be a false claim
		return nil, Invalid(
			fmt.Errorf(
				"%s: has %d files for %d shards: each shard has at least two",
				dir,
				len(ix.Files),
				f.Shards,
			),
		)
	}
	listed := make(map[string]bool, len(ix.Files))
	for _, file := range ix.Files {
		listed[file.Name] = true
	}
	var faults Faults
	for s := range f.Shards {
		names := []string{IndptrName(s, f.Shards), RowsName(s, f.Shards)}
		if b.OfOwners() {
			names = append(names, OwnersName(s, f.Shards))
		}
		for _, name := range names {
			if !listed[name] {
				faults.add(fmt.Errorf("%s: %s is not in the index", dir, name))
			}
		}
	}
	return b, Invalid(faults.err())
}

// OfOwners reports whether owners take part, each with some of its examples.
func (b *Batches) OfOwners() bool { return b.Index.Format == OwnerBatchesFormat }

// Each calls f with the rows of each step, in order. If owners take part, owner i of the batch has
// rows[ends[i-1]:ends[i]], and owner 0 rows[:ends[0]]; if examples do, ends is nil. The slices are
// reused for the next step.
func (b *Batches) Each(ctx context.Context, f func(step int, rows []int64, ends []int) error) error {
	for shard := range b.Facts.Shards {
		if err := b.eachOf(ctx, shard, f); err != nil {
			return fmt.Errorf("shard %d: %w", shard, err)
		}
	}
	return nil
}

// eachOf calls f for the steps of one shard.
func (b *Batches) eachOf(ctx context.Context, shard int, f func(step int, rows []int64, ends []int) error) error {
	shards := b.Facts.Shards
	first, end := ShardStart(b.Facts.Steps, shards, shard), ShardStart(b.Facts.Steps, shards, shard+1)
	indptr, err := b.open(ctx, IndptrName(shard, shards))
	if err != nil {
		return err
	}
	defer indptr.Close()
	if indptr.Len() != end-first+1 {
		return fmt.Errorf("indptr has %d entries, and its steps need %d", indptr.Len(), end-first+1)
	}
	all, err := b.open(ctx, RowsName(shard, shards))
	if err != nil {
		return err
	}
	defer all.Close()
	if all.dtype != b.Facts.RowType {
		return fmt.Errorf("rows are %s, and the index says %s", all.dtype, b.Facts.RowType)
	}
	groups, err := b.openGroups(ctx, shard)
	if err != nil {
		return err
	}
	defer groups.Close()
	rises := errors.New("indptr does not rise from 0 to the number of rows")
	var next [1]int64
	if err := indptr.Read(next[:]); err != nil {
		return err
	}
	if next[0] != 0 {
		return rises
	}
	var rows []int64
	for step := first; step < end; step++ {
		start := next[0]
		if err := indptr.Read(next[:]); err != nil {
			return err
		}
		n := next[0] - start
		if n < 0 || n > int64(all.Len()) {
			return rises
		}
		if b.OfOwners() {
			rows, err = groups.batch(all, rows[:0], next[0])
		} else {
			rows, err = b.batch(all, rows[:0], int(n))
		}
		if err != nil {
			return err
		}
		if err := f(step, rows, groups.ends); err != nil {
			return err
		}
	}
	if all.Len() > 0 {
		return rises
	}
	return groups.finished()
}

// chunkRows is the number of rows that are read before their order is checked.
const chunkRows = 1 << 16

// batch reads the next n rows into dst. It stops at the first row out of order, so that memory does
// not grow with a false claim: a hollow file gives row 0 again and again, and no example has so
// many copies in a batch.
func (b *Batches) batch(all npyFile, dst []int64, n int) ([]int64, error) {
	for n > 0 {
		had := len(dst)
		dst = slices.Grow(dst, min(n, chunkRows))[:had+min(n, chunkRows)]
		if err := all.Read(dst[had:]); err != nil {
			return dst, err
		}
		n -= len(dst) - had
		if last := dst[len(dst)-1]; n > 0 && last <= dst[had] && last != sampling.PadRow {
			return dst, errors.New("the rows of a batch do not ascend")
		}
	}
	return dst, nil
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

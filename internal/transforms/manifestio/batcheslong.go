package manifestio

import (
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"minsep/internal/manifest"
	"minsep/internal/ownergraph"
	"minsep/sampling"
)

// LongName returns the file name of the long form of a shard.
func LongName(shard, shards int) string {
	return fmt.Sprintf("part-%05d-of-%05d.parquet", shard, shards)
}

// longRows is the number of rows after which a row group ends, at the next end of a step.
const longRows = 1 << 20

// longEntry is one participation: example_id is entry slot of the batch of step.
type longEntry[T int64 | string] struct {
	Step      int32 `parquet:"step"`
	Slot      int32 `parquet:"slot"`
	ExampleID T     `parquet:"example_id"`
}

// longOwnerEntry is a longEntry with the number, within the batch, of the owner who brings the
// example.
type longOwnerEntry[T int64 | string] struct {
	Step      int32 `parquet:"step"`
	Slot      int32 `parquet:"slot"`
	Owner     int32 `parquet:"owner"`
	ExampleID T     `parquet:"example_id"`
}

// WriteLong writes the long form of a shard as Parquet with the columns step, slot and
// example_id, sorted by step and slot, with row groups that end with a step; where owners take part
// also with owner, the number, from 0 on, of the owner in the batch. Padding is left out. ends is as
// for Write. appendID appends the id, of type ids, of a row to a column.
func (s BatchSink[R]) WriteLong(
	starts []int64,
	rows []R,
	ends []int64,
	ids ownergraph.IDType,
	appendID func(R, *ownergraph.IDs),
) (manifest.File, error) {
	return manifest.WriteFile(s.Dir, LongName(s.Shard, s.Shards), manifest.SecretFile, func(w io.Writer) error {
		f := longForm[R]{s.First, starts, rows, ids, appendID}
		integers := ids == ownergraph.Int64
		switch {
		case ends == nil && integers:
			return writeLong(w, f, (*ownergraph.IDs).Int, plainEntry[int64])
		case ends == nil:
			return writeLong(w, f, (*ownergraph.IDs).Format, plainEntry[string])
		case integers:
			return writeLong(w, f, (*ownergraph.IDs).Int, ownerEntry[int64](ownerNumbers(starts, ends)))
		}
		return writeLong(w, f, (*ownergraph.IDs).Format, ownerEntry[string](ownerNumbers(starts, ends)))
	})
}

func plainEntry[T int64 | string](_, step, slot int, id T) longEntry[T] {
	return longEntry[T]{int32(step), int32(slot), id}
}

func ownerEntry[T int64 | string](owner func(at int) int32) func(at, step, slot int, id T) longOwnerEntry[T] {
	return func(at, step, slot int, id T) longOwnerEntry[T] {
		return longOwnerEntry[T]{int32(step), int32(slot), owner(at), id}
	}
}

// ownerNumbers returns a function from an index in rows to the number, within its batch, of the
// owner. Its arguments must ascend.
func ownerNumbers(starts, ends []int64) func(at int) int32 {
	numbers := make([]int32, 0, len(ends))
	for t := range len(starts) - 1 {
		for n := int32(0); len(numbers) < len(ends) && ends[len(numbers)] <= starts[t+1]; n++ {
			numbers = append(numbers, n)
		}
	}
	owner := 0
	return func(at int) int32 {
		for ends[owner] <= int64(at) {
			owner++
		}
		return numbers[owner]
	}
}

// longForm holds the arguments of writeLong.
type longForm[R int32 | int64] struct {
	first    int // step
	starts   []int64
	rows     []R
	ids      ownergraph.IDType
	appendID func(R, *ownergraph.IDs)
}

// writeLong writes an entry for every row that is no padding: of row at of the shard, which is in
// the slot of the batch of step.
func writeLong[R int32 | int64, T int64 | string, E any](
	out io.Writer,
	f longForm[R],
	get func(*ownergraph.IDs, int) T,
	entry func(at, step, slot int, id T) E,
) error {
	var like E
	schema := parquet.NewSchema("batches", parquet.SchemaOf(like))
	w := parquet.NewGenericWriter[E](out, schema, parquet.Compression(&parquet.Snappy),
		parquet.SortingWriterConfig(parquet.SortingColumns(parquet.Ascending("step"), parquet.Ascending("slot"))))
	var ids ownergraph.IDs
	var entries []E
	group := 0
	for t := range len(f.starts) - 1 {
		ids.Reset(f.ids)
		entries = entries[:0]
		for slot, r := range f.rows[f.starts[t]:f.starts[t+1]] {
			if r == sampling.PadRow {
				continue
			}
			f.appendID(r, &ids)
			entries = append(entries, entry(int(f.starts[t])+slot, f.first+t, slot, get(&ids, ids.Len()-1)))
		}
		if _, err := w.Write(entries); err != nil {
			return fmt.Errorf("long form: %w", err)
		}
		if group += len(entries); group >= longRows {
			if err := w.Flush(); err != nil {
				return fmt.Errorf("long form: %w", err)
			}
			group = 0
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("long form: %w", err)
	}
	return nil
}

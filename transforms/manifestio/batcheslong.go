package manifestio

import (
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"minsep/manifest"
	"minsep/sampling/ownergraph"
)

// LongName is the name of a shard's long form.
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

// WriteLong writes the long form of a shard as Parquet with the columns step, slot and example_id,
// sorted by step and slot, whose row groups end with a step. Padding is left out. appendID appends
// the id, of type ids, of a row to a column.
func (s BatchSink[R]) WriteLong(starts []int64, rows []R, ids ownergraph.IDType, appendID func(R, *ownergraph.IDs)) (manifest.File, error) {
	return manifest.WriteFile(s.Dir, LongName(s.Shard, s.Shards), manifest.SecretFile, func(w io.Writer) error {
		if ids == ownergraph.Int64 {
			return writeLong(w, s.First, starts, rows, ids, appendID, (*ownergraph.IDs).Int)
		}
		return writeLong(w, s.First, starts, rows, ids, appendID, (*ownergraph.IDs).Format)
	})
}

func writeLong[R int32 | int64, T int64 | string](out io.Writer, first int, starts []int64, rows []R, typ ownergraph.IDType,
	appendID func(R, *ownergraph.IDs), get func(*ownergraph.IDs, int) T) error {
	schema := parquet.NewSchema("batches", parquet.SchemaOf(longEntry[T]{}))
	w := parquet.NewGenericWriter[longEntry[T]](out, schema, parquet.Compression(&parquet.Snappy),
		parquet.SortingWriterConfig(parquet.SortingColumns(parquet.Ascending("step"), parquet.Ascending("slot"))))
	var ids ownergraph.IDs
	var entries []longEntry[T]
	group := 0
	for t := range len(starts) - 1 {
		ids.Reset(typ)
		entries = entries[:0]
		for slot, r := range rows[starts[t]:starts[t+1]] {
			appendID(r, &ids)
			entries = append(entries, longEntry[T]{int32(first + t), int32(slot), get(&ids, slot)})
		}
		if _, err := w.Write(entries); err != nil {
			return fmt.Errorf("manifestio: long form: %w", err)
		}
		if group += len(entries); group >= longRows {
			if err := w.Flush(); err != nil {
				return fmt.Errorf("manifestio: long form: %w", err)
			}
			group = 0
		}
	}
	if err := w.Close(); err != nil {
		return fmt.Errorf("manifestio: long form: %w", err)
	}
	return nil
}

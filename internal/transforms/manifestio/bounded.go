package manifestio

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/manifest"
	"minsep/internal/ownergraph"
	"minsep/internal/packed"
	"minsep/internal/transforms/progress"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[writeBoundedFn]())
	register.Emitter1[string]()
	register.Iter1[[]byte]()
}

var rowsWritten = progress.New("rows written")

// WriteBounded writes a bounded graph to dir, which must exist. rows is a PCollection<KV<uint32,
// []byte>> of part numbers and chunks of package packed, of records of any length: encoded
// [ownergraph.Rows], with ids of the given types, and with pools if pools is set. Each row is in
// exactly one record. The records of a part may come in any order, but must leave no gap. The
// result is a PCollection<string> of JSON [manifest.File], one for each part.
//
// A part of any size is sorted in 256 MiB of memory and temporary files in tempDir on the worker;
// "" means the system's folder.
//
// The bytes of a part depend only on its rows, and its file appears whole or not at all, so that a
// task may run twice.
func WriteBounded(
	s beam.Scope,
	dir, tempDir string,
	example, owner ownergraph.IDType,
	pools bool,
	rows beam.PCollection,
) beam.PCollection {
	s = s.Scope("manifestio.WriteBounded")
	return beam.ParDo(
		s,
		&writeBoundedFn{
			Dir:     dir,
			Example: example,
			Owner:   owner,
			TempDir: tempDir,
			Pools:   pools,
		},
		beam.GroupByKey(s, rows),
	)
}

// writeBoundedFn writes one part.
type writeBoundedFn struct {
	Dir            string
	Example, Owner ownergraph.IDType
	TempDir        string
	Pools          bool // the rows say in which they are
}

func (f *writeBoundedFn) ProcessElement(
	ctx context.Context,
	part uint32,
	chunks func(*[]byte) bool,
	emit func(string),
) (err error) {
	sorted := packed.Sorter{Dir: f.TempDir}
	defer func() { err = errors.Join(err, sorted.Close()) }()
	if err := sortChunks(&sorted, chunks); err != nil {
		return err
	}
	var rows ownergraph.Rows
	file, err := manifest.WriteFile(
		f.Dir,
		manifest.BoundedPartName(int(part)),
		manifest.PublicFile,
		func(out io.Writer) error {
			w := manifest.NewBoundedWriter(out, f.Example, f.Owner, f.Pools)
			err := sorted.Each(func(record []byte) error {
				if err := rows.UnmarshalBinary(record[8:]); err != nil {
					return err
				}
				rowsWritten.Add(ctx, rows.Len())
				return cmp.Or(w.Write(&rows), ctx.Err())
			})
			return cmp.Or(err, w.Close())
		},
	)
	if err != nil {
		return err
	}
	return EmitFiles([]manifest.File{file}, emit)
}

// sortChunks orders the records of chunks by their first row: a record of the sorter is that, 8
// bytes, and the record.
func sortChunks(sorted *packed.Sorter, chunks func(*[]byte) bool) error {
	var chunk []byte
	for chunks(&chunk) {
		err := packed.Records(chunk, func(rows []byte) error {
			first, _, err := ownergraph.RowRange(rows)
			if err != nil {
				return err
			}
			return sorted.Add(packed.Chunk(binary.BigEndian.AppendUint64(nil, uint64(first)), rows))
		})
		if err != nil {
			return err
		}
	}
	return nil
}

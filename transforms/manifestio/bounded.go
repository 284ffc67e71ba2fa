package manifestio

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"reflect"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/pipelines/manifest"
	"minsep/sampling/ownergraph"
	"minsep/transforms/progress"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[writeBoundedFn]())
	register.Emitter1[string]()
	register.Iter1[[]byte]()
}

var rowsWritten = progress.New("rows written")

// WriteBounded writes a bounded graph to dir, which must be there: rows is a PCollection<KV<uint32, []byte>> of part numbers and
// encoded [ownergraph.Rows] with ids of the given types, every row in one chunk, and the chunks of a part, in any order,
// without a gap. The result, PCollection<string>, is a [manifest.File] in JSON for each part.
//
// A part's bytes depend on its rows alone, and it appears whole or not at all, so a task may run twice.
func WriteBounded(s beam.Scope, dir string, example, owner ownergraph.IDType, rows beam.PCollection) beam.PCollection {
	s = s.Scope("manifestio.WriteBounded")
	return beam.ParDo(s, &writeBoundedFn{Dir: dir, Example: example, Owner: owner, Mode: uint32(manifest.PublicFile)}, beam.GroupByKey(s, rows))
}

// writeBoundedFn writes a part.
type writeBoundedFn struct {
	Dir            string
	Example, Owner ownergraph.IDType
	Mode           uint32
}

func (f *writeBoundedFn) ProcessElement(ctx context.Context, part uint32, chunks func(*[]byte) bool, emit func(string)) error {
	sorted, err := sortChunks(chunks)
	if err != nil {
		return err
	}
	file, err := manifest.WriteFile(f.Dir, manifest.BoundedPartName(int(part)), fs.FileMode(f.Mode), func(out io.Writer) error {
		w := manifest.NewBoundedWriter(out, f.Example, f.Owner)
		var rows ownergraph.Rows
		for _, c := range sorted {
			if err := rows.UnmarshalBinary(c.bytes); err != nil {
				return err
			}
			if err := w.Write(&rows); err != nil {
				return err
			}
			rowsWritten.Add(ctx, rows.Len())
			if err := ctx.Err(); err != nil {
				return err
			}
		}
		return w.Close()
	})
	if err != nil {
		return err
	}
	b, err := json.Marshal(file)
	if err != nil {
		return fmt.Errorf("manifestio: %w", err)
	}
	emit(string(b))
	return nil
}

// rowsChunk is an encoded [ownergraph.Rows].
type rowsChunk struct {
	first int64
	bytes []byte
}

// sortChunks orders chunks by their first row.
func sortChunks(chunks func(*[]byte) bool) (list []rowsChunk, err error) {
	for {
		var b []byte // kept, so a new one each time
		if !chunks(&b) {
			break
		}
		first, err := ownergraph.FirstRow(b)
		if err != nil {
			return nil, err
		}
		list = append(list, rowsChunk{first, b})
	}
	slices.SortFunc(list, func(a, b rowsChunk) int { return cmp.Compare(a.first, b.first) })
	return list, nil
}

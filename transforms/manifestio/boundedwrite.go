package manifestio

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"slices"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/pipelines/manifest"
	"minsep/sampling/ownergraph"
	"minsep/transforms/progress"
)

func init() {
	register.DoFn4x1[context.Context, uint32, func(*[]byte) bool, func(string), error](&writeBoundedFn{})
	register.DoFn2x0[[]byte, func(string)](&lineFn{})
	register.Emitter1[string]()
	register.Iter1[[]byte]()
}

var rowsWritten = progress.New("rows written")

// WriteBounded writes the rows of a bounded graph, KV<uint32, []byte> of part number and encoded [ownergraph.Rows], to
// part files in dir. It returns the files as a PCollection<string> of JSON [manifest.File]. A task holds the encoded rows
// of one part in memory.
func WriteBounded(s beam.Scope, dir string, example, owner ownergraph.IDType, rows beam.PCollection) beam.PCollection {
	s = s.Scope("manifestio.WriteBounded")
	return beam.ParDo(s, &writeBoundedFn{Dir: dir, Example: example, Owner: owner}, beam.GroupByKey(s, rows))
}

type writeBoundedFn struct {
	Dir            string
	Example, Owner ownergraph.IDType
}

func (f *writeBoundedFn) ProcessElement(ctx context.Context, part uint32, chunks func(*[]byte) bool, emit func(string)) error {
	type chunk struct {
		first int64
		bytes []byte
	}
	var all []chunk
	var rows ownergraph.Rows
	for b := []byte(nil); chunks(&b); b = nil {
		if err := rows.UnmarshalBinary(b); err != nil {
			return err
		}
		all = append(all, chunk{rows.First, b})
	}
	slices.SortFunc(all, func(a, b chunk) int { return cmp.Compare(a.first, b.first) })
	file, err := manifest.WriteFile(f.Dir, manifest.BoundedPartName(int(part)), manifest.PublicFile, func(w io.Writer) error {
		out := manifest.NewBoundedWriter(w, f.Example, f.Owner)
		for _, c := range all {
			if err := rows.UnmarshalBinary(c.bytes); err != nil {
				return err
			}
			if err := out.Write(&rows); err != nil {
				return err
			}
			rowsWritten.Add(ctx, rows.Len())
		}
		return out.Close()
	})
	if err != nil {
		return err
	}
	line, err := json.Marshal(file)
	emit(string(line))
	return err
}

// Lines turns a PCollection<[]byte> of texts into strings, for [Collect].
func Lines(s beam.Scope, texts beam.PCollection) beam.PCollection {
	return beam.ParDo(s, &lineFn{}, texts)
}

type lineFn struct{}

func (*lineFn) ProcessElement(text []byte, emit func(string)) { emit(string(text)) }

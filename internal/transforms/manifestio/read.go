package manifestio

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/graphio"
	"minsep/internal/manifest"
	"minsep/internal/ownergraph"
	"minsep/internal/store"
	"minsep/internal/transforms/progress"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[readGraphFn]())
	beam.RegisterDoFn(reflect.TypeFor[readBoundedFn]())
	register.Emitter1[[]byte]()
}

// BytesRead names the counter of bytes read of a graph. [graphio.Source.ReadBytes] is the
// expected total.
const BytesRead = "graph bytes read"

var (
	bytesRead     = progress.New(BytesRead)
	edgesRead     = progress.New("edges read")
	ownerlessRead = progress.New("examples without owners left out")
	rowsRead      = progress.New("rows read")
)

// ReadGraph reads the splits of a graph ([graphio.Source]) into a PCollection<[]byte> of encoded
// [ownergraph.Edges], about 64 KiB each. In a graph of single owners each example is its own owner.
// Every worker must be able to read the files under the same paths.
//
// A fault in a file fails the pipeline. The message names the file, the line or row group, and the
// rule, but no value: ids are secret.
func ReadGraph(s beam.Scope, splits []graphio.Split) (beam.PCollection, error) {
	s = s.Scope("manifestio.ReadGraph")
	absolute := make([]graphio.Split, len(splits)) // a worker may run in another folder
	for i, split := range splits {
		path, err := store.Abs(split.Path)
		if err != nil {
			return beam.PCollection{}, err
		}
		absolute[i], absolute[i].Path = split, path
	}
	work, err := units(s, absolute)
	if err != nil {
		return beam.PCollection{}, err
	}
	return beam.ParDo(s, &readGraphFn{}, work), nil
}

// units spreads units of work, encoded as JSON, over the workers.
func units[T any](s beam.Scope, list []T) (beam.PCollection, error) {
	if len(list) == 0 {
		return beam.PCollection{}, fmt.Errorf("there is nothing to read")
	}
	texts := make([]string, len(list))
	for i, unit := range list {
		b, err := json.Marshal(unit)
		if err != nil {
			return beam.PCollection{}, fmt.Errorf("unit of work: %w", err)
		}
		texts[i] = string(b)
	}
	return beam.Reshuffle(s, beam.CreateList(s, texts)), nil
}

// readGraphFn reads a split.
type readGraphFn struct{}

func (*readGraphFn) ProcessElement(ctx context.Context, unit string, emit func([]byte)) error {
	var split graphio.Split
	if err := json.Unmarshal([]byte(unit), &split); err != nil {
		return fmt.Errorf("unit of work: %w", err)
	}
	return split.Read(ctx, countedFS{}, func(b *graphio.Batch) error {
		if b.Ownerless > 0 {
			ownerlessRead.Add(ctx, int(b.Ownerless))
		}
		if edgesRead.Add(ctx, b.Len()); b.Len() == 0 {
			return nil
		}
		chunk, err := b.OwnEdges().AppendBinary(nil)
		if err == nil {
			emit(chunk)
		}
		return err
	})
}

// countedFS counts the bytes that are read.
type countedFS struct{ graphio.Files }

func (l countedFS) Open(ctx context.Context, name string) (graphio.File, error) {
	f, err := l.Files.Open(ctx, name)
	if err != nil {
		return nil, err
	}
	return &countedFile{f, ctx}, nil
}

type countedFile struct {
	graphio.File
	ctx context.Context
}

func (f *countedFile) ReadAt(b []byte, at int64) (int, error) {
	n, err := f.File.ReadAt(b, at)
	bytesRead.Add(f.ctx, n)
	return n, err
}

// Rows of a chunk that encode to about 64 KiB with integer ids.
const (
	chunkRows      = 1 << 11
	chunkRowsAlone = 3 * chunkRows // without owners
)

// ReadBounded reads a bounded graph into a PCollection<[]byte> of encoded [ownergraph.Rows], about
// 64 KiB each: every row once, the rows of a chunk in their order. With owners false the owners are
// not read, and every row has none. The folder must be readable by every worker under the same
// path.
//
// A table that is not as [manifest.BoundedWriter] writes it fails the pipeline with
// [manifest.ErrTable].
func ReadBounded(s beam.Scope, table *manifest.Bounded, owners bool) (beam.PCollection, error) {
	s = s.Scope("manifestio.ReadBounded")
	dir, err := store.Abs(table.Dir) // a worker may run in another folder
	if err != nil {
		return beam.PCollection{}, err
	}
	work, err := units(s, table.Parts)
	if err != nil {
		return beam.PCollection{}, err
	}
	return beam.ParDo(s, &readBoundedFn{Dir: dir, Owners: owners}, work), nil
}

// readBoundedFn reads a part.
type readBoundedFn struct {
	Dir    string
	Owners bool
}

func (f *readBoundedFn) ProcessElement(ctx context.Context, unit string, emit func([]byte)) error {
	var part manifest.BoundedFile
	if err := json.Unmarshal([]byte(unit), &part); err != nil {
		return fmt.Errorf("unit of work: %w", err)
	}
	size := chunkRows
	if !f.Owners {
		size = chunkRowsAlone
	}
	return part.Each(ctx, f.Dir, f.Owners, size, func(r *ownergraph.Rows) error {
		chunk, err := r.AppendBinary(nil)
		if err != nil {
			return err
		}
		rowsRead.Add(ctx, r.Len())
		emit(chunk)
		return ctx.Err()
	})
}

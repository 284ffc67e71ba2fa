package contribution

import (
	"context"
	"encoding/json"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/ondisk"
	"minsep/internal/ownergraph"
	"minsep/internal/packed"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[aloneFn]())
	register.Function4x0(oneOf)
}

// oneOf emits the elements of two collections, of which one has none.
func oneOf(_ []byte, a, b func(*[]byte) bool, emit func([]byte)) {
	for _, elements := range []func(*[]byte) bool{a, b} {
		for x := []byte(nil); elements(&x); x = nil {
			emit(x)
		}
	}
}

// smallGraph is the number of bytes of edges up to which one worker bounds a graph in seconds, and a
// shuffle would cost several times as much: 2^25 edges of integers.
const smallGraph = 1 << 29

// inMemory is the number of edges that one worker bounds without files.
const inMemory = 1 << 26

// aloneFn bounds a small graph, in memory.
type aloneFn struct{ Config Config }

// aloneRows is the number of rows that are emitted together: about a chunk of integers.
const aloneRows = 1 << 11

func (f *aloneFn) ProcessElement(
	ctx context.Context,
	_ uint32,
	chunks func(*[]byte) bool,
	rows packed.Emit,
	summary func([]byte),
) error {
	key, err := f.Config.Key.Key(ctx, ownergraph.PriorityPurpose)
	if err != nil {
		return err
	}
	bounder := &ondisk.Bounder{
		Bound:    f.Config.Bound,
		Key:      key,
		Examples: f.Config.Examples,
		Owners:   f.Config.Owners,
		InMemory: inMemory,
		Dir:      f.Config.TempDir,
	}
	defer bounder.Close()
	var edges ownergraph.Edges
	for chunk := []byte(nil); chunks(&chunk); chunk = nil {
		err := packed.Records(chunk, func(record []byte) error {
			if err := edges.UnmarshalBinary(record); err != nil {
				return err
			}
			if edges.Len() == 0 { // an empty chunk has no id types to compare
				return nil
			}
			edgesRead.Add(ctx, edges.Len())
			return bounder.Add(&edges)
		})
		if err != nil {
			return err
		}
	}
	bounded, err := bounder.Bounded(ctx)
	if err != nil {
		return err
	}
	examplesDecided.Add(ctx, int(bounded.Summary.Examples))
	if err := f.emit(ctx, bounded, rows); err != nil {
		return err
	}
	b, err := json.Marshal(bounded.Summary)
	summary(b)
	return err
}

// emit emits the rows, each run of them in one part of the table.
func (f *aloneFn) emit(ctx context.Context, bounded *ownergraph.Bounded, emit packed.Emit) error {
	packer := packed.NewPacker(0).Over(f.Config.Overflow)
	perPart := int64(f.Config.RowsPerPart)
	var run ownergraph.Rows
	var record []byte
	example := 0
	for row := int64(0); row < bounded.Summary.Kept; row += int64(run.Len()) {
		run.Reset(row, f.Config.Examples, f.Config.Owners)
		example = bounded.AppendRows(&run, example, int(min(aloneRows, perPart-row%perPart)))
		var err error
		if record, err = run.AppendBinary(record[:0]); err != nil {
			return err
		}
		packer.AddAlone(uint32(row/perPart), record, emit)
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return packer.Flush(emit)
}

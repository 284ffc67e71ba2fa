package contribution

import (
	"cmp"
	"context"
	"encoding/json"
	"reflect"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	"minsep/internal/ondisk"
	"minsep/internal/ownergraph"
	"minsep/internal/packed"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[aloneFn]())
}

// SmallGraph is the number of edges up to which one worker bounds a graph in seconds, and a shuffle
// would cost several times as much.
const SmallGraph = 1 << 25

// BoundAlone is [Bound] in one worker, with the same result: in memory, and through files if there
// are many more than [SmallGraph] edges. Buckets are not used.
func BoundAlone(s beam.Scope, c Config, edges beam.PCollection) (Result, error) {
	if err := c.Validate(); err != nil {
		return Result{}, err
	}
	s = s.Scope("contribution.BoundAlone")
	none, err := new(ownergraph.Edges).AppendBinary(nil) // so that a graph without edges is bounded too
	if err != nil {
		return Result{}, err
	}
	all := beam.Flatten(s, edges, beam.CreateList(s, [][]byte{none}))
	rows, summary := beam.ParDo2(s, &aloneFn{Config: c.withDefaults()}, beam.GroupByKey(s, beam.AddFixedKey(s, all)))
	return Result{Rows: rows, Summary: summary}, nil
}

// aloneFn bounds the whole graph.
type aloneFn struct{ Config Config }

// aloneRows is the number of rows that are emitted together: about a chunk of integers.
const aloneRows = 1 << 11

func (f *aloneFn) ProcessElement(
	ctx context.Context,
	_ int,
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
		InMemory: 2 * SmallGraph,
		Dir:      f.Config.TempDir,
	}
	defer bounder.Close()
	var edges ownergraph.Edges
	for chunk := []byte(nil); chunks(&chunk); chunk = nil {
		if err := edges.UnmarshalBinary(chunk); err != nil {
			return err
		}
		if edges.Len() == 0 { // an empty chunk has no id types to compare
			continue
		}
		if err := cmp.Or(f.Config.checkTypes(&edges), bounder.Add(&edges)); err != nil {
			return err
		}
		edgesRead.Add(ctx, edges.Len())
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

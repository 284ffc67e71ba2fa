package transforms

import (
	"path/filepath"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/parquet-go/parquet-go"

	"minsep/internal/manifest"
	"minsep/internal/must"
	"minsep/internal/ownergraph"
	"minsep/sampling"
)

// TestGraphOfBytes: ids that are bytes in a file are bytes in the table and in the elements of a job.
func TestGraphOfBytes(t *testing.T) {
	type edge struct {
		Example []byte `parquet:"example_id"`
		Owner   []byte `parquet:"owner_id"`
	}
	training := newTraining(t)
	file := filepath.Join(t.TempDir(), "g.parquet")
	must.Do(t, parquet.WriteFile(file, []edge{{[]byte{0xff, 1}, []byte{0, 2}}, {[]byte{0xfe, 1}, []byte{0, 2}}}))
	p, s := beam.NewPipelineWithRoot()
	e := must.Get(BoundGraph(t.Context(), s, training, limits, Graph{Files: []string{file}}))(t)
	must.Do(t, e.Write(t.Context(), s))
	taken.bytes = nil
	b := must.Get(SampleBatches(s, Sampling{Params: sampling.Params{Scheme: "poisson", Steps: 60, BatchSize: 1}, Shards: 1, Workers: 1}, e))(t)
	beam.ParDo0(s, takeBytes, must.Get(b.Elements(s))(t))
	must.Get(beam.Run(t.Context(), "prism", p))(t)

	table := must.Get(manifest.OpenBounded(t.Context(), filepath.Join(training.dir, manifest.BoundedFolder)))(t)
	if table.ExampleType != ownergraph.Bytes || table.OwnerType != ownergraph.Bytes || table.Rows != 2 {
		t.Errorf("the table has %d rows of %v and %v", table.Rows, table.ExampleType, table.OwnerType)
	}
	for _, batch := range taken.bytes {
		for _, id := range batch.IDs {
			if len(id) != 2 || id[1] != 1 {
				t.Errorf("an element has the id %x", id)
			}
		}
	}
	if len(taken.bytes) == 0 {
		t.Error("no element came")
	}
}

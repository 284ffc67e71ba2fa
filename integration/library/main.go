// Command library uses all transforms on the examples of a small graph, in a training for a test,
// and is the program of its workers. Its tests run it with every bundle repeated, and programs of
// a user's own with a key and a run directory in an object store.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"

	"minsep/mechanism"
	"minsep/minseptest"
	"minsep/privacy"
	"minsep/sampling"
	"minsep/transforms"
)

func init() {
	register.Function3x0(valueOf)
	register.Function3x0(recordOf)
	register.Emitter2[int64, transforms.Value]()
	register.Emitter2[int64, string]()
}

// valueOf makes a value of a pair.
func valueOf(example int64, owner string, emit func(int64, transforms.Value)) {
	if example%5 != 0 { // these have two owners
		emit(example, transforms.Value{Column: "number", Number: float64(example % 7)})
	}
}

// recordOf makes a record of a row.
func recordOf(example int64, row transforms.Row[string], emit func(int64, string)) {
	emit(example, fmt.Sprint("record of ", row.Number))
}

// pipelines are the limits and the scheme of each pipeline, and the blocks of rows of a step.
var pipelines = map[string]struct {
	limits transforms.Limits
	scheme sampling.Params
	blocks int
}{
	"b-min-sep": {transforms.Limits{MaxExamplesPerOwner: 2},
		sampling.Params{Scheme: "b-min-sep", Steps: 40, MinSep: 4, BatchSize: 20}, 1},
	"files": {transforms.Limits{MaxExamplesPerOwner: 2, EdgesInMemory: 100},
		sampling.Params{Scheme: "b-min-sep", Steps: 40, MinSep: 4, BatchSize: 20, MaxBatchSize: 22, Pad: true}, 3},
	"copies": {transforms.Limits{MaxExamplesPerOwner: 3, Duplicates: true, MaxNeighborhood: 20, Random: true},
		sampling.Params{Scheme: "poisson", Steps: 40, BatchSize: 20}, 2},
	"rotation": {transforms.Limits{MaxExamplesPerOwner: 1, Pools: 3},
		sampling.Params{Scheme: "rotation", Steps: 40, EpochSteps: 10}, 1},
	"multi-owner": {transforms.Limits{MaxExamplesPerOwner: 3},
		sampling.Params{Scheme: "multi-owner", Steps: 40, MinSep: 4, BatchSize: 20}, 3},
	"fixed": {transforms.Limits{MaxExamplesPerOwner: 2},
		sampling.Params{Scheme: "fixed", Steps: 40, MinSep: 4, BatchSize: 20}, 1},
	"owners": {transforms.Limits{MaxExamplesPerOwner: 2},
		sampling.Params{Scheme: "b-min-sep", Steps: 40, MinSep: 4, BatchSize: 20, Sample: sampling.SampleOwners, ExamplesPerOwner: 2}, 3},
}

// everything uses all transforms on the examples of a small graph.
func everything(ctx context.Context, name string, training *transforms.Training) *beam.Pipeline {
	of := pipelines[name]
	p, s := beam.NewPipelineWithRoot()
	pairs := minseptest.Graph(s, 300, 5)
	examples := must(transforms.BoundContributions(s, training, of.limits, pairs))
	must(0, examples.Write(ctx, s))
	rows := must(examples.Rows(s))
	batches := must(transforms.SampleBatches(s, transforms.Sampling{Params: of.scheme, PartSize: 7, Shards: 3, Blocks: of.blocks}, examples))
	must(batches.Elements(s))
	must(batches.Write(ctx, s))
	if name != "owners" {
		must(batches.Join(s, beam.ParDo(s, recordOf, rows)))
	}
	strategy := must(mechanism.BSR(of.scheme.Steps, 4))
	noise := transforms.NoiseParams{Strategy: strategy, Coordinates: 300, NoiseMultiplier: 1, ClipNorm: 1}
	must(transforms.Noise(ctx, s, batches, noise, transforms.NoiseLayout{Coordinates: 100, Steps: 9}))
	ask := privacy.Statistics{Name: "numbers", Epsilon: 1, Statistics: []privacy.Statistic{{Column: "number", Kind: privacy.Mean, Upper: 7}}}
	must(transforms.Statistics(ctx, s, ask, examples, beam.ParDo(s, valueOf, pairs)))
	return p
}

func main() {
	folder, name := flag.String("folder", "", "folder of the training"), flag.String("pipeline", "", "name of the pipeline")
	batchSize := flag.Float64("batch-size", 0, "batch size, in place of the pipeline's")
	flag.Parse()
	beam.Init()
	ctx := context.Background()
	if of := pipelines[*name]; *batchSize > 0 {
		of.scheme.BatchSize = *batchSize
		pipelines[*name] = of
	}
	if err := beamx.Run(ctx, everything(ctx, *name, must(minseptest.Training(*folder)))); err != nil {
		log.Fatal(transforms.Fault(err))
	}
}

// must returns v. It panics if there is an error.
func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

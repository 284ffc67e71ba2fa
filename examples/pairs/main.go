// Command pairs takes own pairs of examples and owners to an own DoFn: bounded, and sampled into
// batches. It leaves the same files as the command, too.
package main

import (
	"context"
	"flag"
	"fmt"
	"log"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"

	"minsep/sampling"
	"minsep/transforms"
)

func init() {
	register.Function2x0(makePairs)
	register.Function1x0(use)
	register.Emitter2[int64, string]()
}

// makePairs stands for your own source: Beam's textio, parquetio, bigqueryio and so on.
func makePairs(owner int, emit func(int64, string)) {
	for i := range 5 {
		emit(int64(5*owner+i), fmt.Sprintf("owner-%d", owner))
	}
}

// use stands for a trainer's step.
func use(b transforms.Batch[int64]) {
	fmt.Printf("step %d: %d examples\n", b.Step, len(b.IDs))
}

func main() {
	run, key := flag.String("run", "", "run directory, which is made"), flag.String("key", "", "key file")
	flag.Parse()
	beam.Init()
	ctx := context.Background()
	training := must(transforms.NewTraining(ctx, *run, *key))
	p, s := beam.NewPipelineWithRoot()
	owners := make([]int, 2000)
	for i := range owners {
		owners[i] = i
	}
	pairs := beam.ParDo(s, makePairs, beam.CreateList(s, owners))
	limits := transforms.Limits{MaxExamplesPerOwner: 1}
	examples := must(transforms.BoundContributions(s, training, limits, pairs))
	must(0, examples.Write(ctx, s))
	scheme := sampling.Params{Scheme: "b-min-sep", Steps: 200, MinSep: 10, BatchSize: 50}
	batches := must(transforms.SampleBatches(s, transforms.Sampling{Params: scheme}, examples))
	beam.ParDo0(s, use, must(batches.Elements(s)))
	must(batches.Write(ctx, s))
	must(0, transforms.Fault(beamx.Run(ctx, p))) // --runner=direct, prism, flink, dataflow
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

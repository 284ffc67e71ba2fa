// Command noise takes the correlated noise of a training to an own sink.
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
	"minsep/sampling"
	"minsep/transforms"
)

func init() {
	register.Function1x0(sink)
}

// sink stands for your own writer. Noise is as secret as gradients, so this one counts values.
func sink(b transforms.NoiseBlock) {
	for step := b.Step; step < b.Step+b.Steps; step++ {
		fmt.Printf("step %d: noise of coordinates %d to %d\n", step, b.First, b.End-1)
	}
}

func main() {
	run, key := flag.String("run", "", "run directory, which is made"), flag.String("key", "", "key file")
	flag.Parse()
	beam.Init()
	ctx := context.Background()
	training := must(transforms.NewTraining(ctx, *run, *key))
	p, s := beam.NewPipelineWithRoot()
	scheme := sampling.Params{Scheme: "b-min-sep", Steps: 200, MinSep: 10, BatchSize: 50}
	batches := must(transforms.SampleBatches(s, transforms.Sampling{Params: scheme}, transforms.NumberedExamples(training, 10000)))
	must(batches.Write(ctx, s))
	strategy := must(mechanism.BSR(200, 10))
	params := transforms.NoiseParams{Strategy: strategy, Coordinates: 1000, NoiseMultiplier: 0.75, ClipNorm: 1} // as a certificate says
	blocks := must(transforms.Noise(ctx, s, batches, params, transforms.NoiseLayout{Coordinates: 400}))
	beam.ParDo0(s, sink, blocks)
	must(0, transforms.Fault(beamx.Run(ctx, p))) // --runner=direct, prism, flink, dataflow
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

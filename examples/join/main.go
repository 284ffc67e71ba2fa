// Command join joins batches with the examples' own records, and prints how each batch begins.
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
	register.Function2x0(makeRecords)
	register.Function2x0(use)
	register.Emitter2[int64, string]()
}

const people = 10000

// makeRecords stands for your own source of records by the id of the example.
func makeRecords(_ []byte, emit func(int64, string)) {
	for id := range int64(people) {
		emit(id, fmt.Sprintf("record of %d", id))
	}
}

// use gets the entries of a batch one after the other.
func use(slot transforms.Slot, record string) {
	if slot.Index == 0 {
		fmt.Printf("step %d: %d entries, the first is the %s\n", slot.Step, slot.Size, record)
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
	batches := must(transforms.SampleBatches(s, transforms.Sampling{Params: scheme}, transforms.NumberedExamples(training, people)))
	records := beam.ParDo(s, makeRecords, beam.Impulse(s))
	beam.ParDo0(s, use, must(batches.Join(s, records)))
	must(0, transforms.Fault(beamx.Run(ctx, p))) // --runner=direct, prism, flink, dataflow
}

func must[T any](v T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return v
}

package transforms_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	//lint:ignore SA1019 it is the default runner
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct"

	"minsep/internal/stream"
	"minsep/sampling"
	"minsep/transforms"
)

func init() {
	register.Function2x0(books)
	register.Function2x0(seeRow)
	register.Function1x0(seeBatch)
	register.Emitter2[int64, string]()
}

// books emits three books of each of a thousand authors.
func books(_ []byte, emit func(int64, string)) {
	for author := range int64(1000) {
		for i := range int64(3) {
			emit(3*author+i, fmt.Sprintf("author %d", author))
		}
	}
}

var kept, steps atomic.Int64

func seeRow(int64, transforms.Row[string]) { kept.Add(1) }

func seeBatch(b transforms.Batch[int64]) {
	if b.Part == 0 {
		steps.Add(1)
	}
}

func Example() {
	dir, err := os.MkdirTemp("", "library")
	if err != nil {
		fmt.Println(err)
		return
	}
	defer os.RemoveAll(dir)
	key := filepath.Join(dir, "key")
	if err := stream.CreateKeyFile(key); err != nil {
		fmt.Println(err)
		return
	}
	ctx := context.Background()
	training, err := transforms.NewTraining(ctx, filepath.Join(dir, "run"), key)
	if err != nil {
		fmt.Println(err)
		return
	}
	p, s := beam.NewPipelineWithRoot()
	limits := transforms.Limits{MaxExamplesPerOwner: 2}
	examples, err := transforms.BoundContributions(s, training, limits, beam.ParDo(s, books, beam.Impulse(s)))
	if err != nil {
		fmt.Println(err)
		return
	}
	rows, err := examples.Rows(s)
	if err != nil {
		fmt.Println(err)
		return
	}
	beam.ParDo0(s, seeRow, rows)
	scheme := sampling.Params{Scheme: "b-min-sep", Steps: 60, MinSep: 6, BatchSize: 100}
	batches, err := transforms.SampleBatches(s, transforms.Sampling{Params: scheme}, examples)
	if err != nil {
		fmt.Println(err)
		return
	}
	elements, err := batches.Elements(s)
	if err != nil {
		fmt.Println(err)
		return
	}
	beam.ParDo0(s, seeBatch, elements)
	_, err = direct.Execute(ctx, p)
	fmt.Println(transforms.Fault(err), kept.Load(), "books in", steps.Load(), "steps")
	// Output: <nil> 2000 books in 60 steps
}

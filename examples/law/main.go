// Command law certifies a sampling scheme of its own on a Beam runner, and draws its batches: at
// most twice, at least a week apart, never on the first day. It leaves a file of the law for the
// command too: minsep plan --law FILE.
package main

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"os"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/x/beamx"

	"minsep/mechanism"
	"minsep/privacy"
	"minsep/sampling"
	"minsep/transforms"
)

func init() { register.Function1x0(use) }

// weekly is at a point with the number of participations as its state.
func weekly(at sampling.Point) (p float64, in, out sampling.Point) {
	in = sampling.Point{Step: at.Step + 7, State: at.State + 1}
	if at.State == 1 {
		in.Step = sampling.Never
	}
	return 0.05, in, sampling.Point{Step: at.Step + 1, State: at.State}
}

// use stands for a trainer's step.
func use(b transforms.Batch[int64]) { fmt.Printf("step %d: %d examples\n", b.Step, len(b.Rows)) }

func main() {
	run, key := flag.String("run", "", "run directory, which is made"), flag.String("key", "", "key file")
	shared := flag.String("shared", "", "folder that workers and this program share, which exists and is empty")
	file := flag.String("file", "law.json", "file of the law, which is written")
	flag.Parse()
	beam.Init()
	ctx := context.Background()
	law := sampling.Law{Start: []sampling.Start{{Point: sampling.Point{Step: 1}, Prob: 1}}, Next: weekly}
	table := must(law.Tabulate(30))
	must(0, os.WriteFile(*file, must(json.Marshal(table)), 0o644))
	claim := privacy.Claim{Sampler: sampling.Spec{Law: table}, Strategy: must(mechanism.BSR(30, 4)), Epsilon: 2, Delta: 1e-2, Samples: 50_000}
	certificate := must(privacy.Certify(ctx, claim, transforms.OnRunner(*shared, beamx.Run)))
	fmt.Printf("σ = %.3f by %s\n", certificate.NoiseMultiplier, certificate.Method)
	training := must(transforms.NewTraining(ctx, *run, *key))
	p, s := beam.NewPipelineWithRoot()
	scheme := sampling.Params{Scheme: sampling.LawScheme, Steps: 30, Law: table}
	batches := must(transforms.SampleBatches(s, transforms.Sampling{Params: scheme}, transforms.NumberedExamples(training, 1000)))
	beam.ParDo0(s, use, must(batches.Elements(s)))
	must(0, transforms.Fault(beamx.Run(ctx, p))) // --runner=direct, prism, flink, dataflow
}

func must[T any](x T, err error) T {
	if err != nil {
		log.Fatal(err)
	}
	return x
}

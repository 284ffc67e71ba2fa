package transforms

import (
	"os"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"minsep/internal/ownergraph"
	"minsep/internal/stream"
	"minsep/sampling"
)

func init() {
	register.Function2x0(benchPairs)
	register.Function2x0(dropPair)
	register.Function2x0(onePair)
	register.Function1x0(count)
	register.Emitter2[int64, int64]()
}

// blockPairs is the number of pairs of an element of benchPairs.
const blockPairs = 10000

// benchPairs makes two pairs for each example, of one owner for each two examples on average.
func benchPairs(block int, emit func(int64, int64)) {
	for i := range int64(blockPairs) {
		n := int64(block)*blockPairs + i
		emit(n/2, n*0x9e3779b1%(1<<20))
	}
}

func dropPair(int64, int64) {}

var counted atomic.Int64

func count(b Batch[int64]) { counted.Add(int64(len(b.Rows))) }

func cpuSeconds(b *testing.B) float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// benchN is MINSEP_BENCH_EDGES or 1e6.
func benchN() int {
	if n, err := strconv.Atoi(os.Getenv("MINSEP_BENCH_EDGES")); err == nil {
		return n
	}
	return 1_000_000
}

// BenchmarkBound bounds pairs on the direct runner: their emission alone, in one worker, by a
// shuffle, and in memory without Beam.
func BenchmarkBound(b *testing.B) {
	n := benchN()
	for _, mode := range []string{"pairs", "one worker", "shuffle", "memory"} {
		b.Run(mode, func(b *testing.B) {
			before := cpuSeconds(b)
			for b.Loop() {
				if mode == "memory" {
					boundInMemory(b, n)
					continue
				}
				p, s := beam.NewPipelineWithRoot()
				pairs := beam.ParDo(s, benchPairs, beam.CreateList(s, numbers(n/blockPairs)))
				if mode == "pairs" {
					beam.ParDo0(s, dropPair, pairs)
				} else {
					l := Limits{MaxExamplesPerOwner: 1, Pairs: int64(n)}
					if mode == "shuffle" {
						l.Buckets = 8
					}
					must[Examples](b)(BoundContributions(s, newTraining(b), l, pairs))
				}
				if _, err := beam.Run(b.Context(), "direct", p); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((cpuSeconds(b)-before)/float64(b.N), "cpu-s/op")
		})
	}
}

func boundInMemory(b *testing.B, n int) {
	builder := ownergraph.NewBuilder(ownergraph.Int64, ownergraph.Int64)
	var edges ownergraph.Edges
	for block := range n / blockPairs {
		edges.Reset(ownergraph.Int64, ownergraph.Int64)
		benchPairs(block, func(example, owner int64) {
			edges.Examples.AppendInt(example)
			edges.Owners.AppendInt(owner)
		})
		if err := builder.Add(&edges); err != nil {
			b.Fatal(err)
		}
	}
	graph, err := builder.Graph()
	if err != nil {
		b.Fatal(err)
	}
	if _, err := (ownergraph.Bound{MaxExamplesPerOwner: 1}).Greedy(graph, stream.PublicKey("bench", nil)); err != nil {
		b.Fatal(err)
	}
}

// BenchmarkElements makes 1e7 entries of 1e6 examples in 1000 steps on the direct runner, with the
// ids of a table and without.
func BenchmarkElements(b *testing.B) {
	n := benchN()
	for _, rowsOnly := range []bool{true, false} {
		b.Run("rows only="+strconv.FormatBool(rowsOnly), func(b *testing.B) {
			before := cpuSeconds(b)
			counted.Store(0)
			for b.Loop() {
				p, s := beam.NewPipelineWithRoot()
				pairs := beam.ParDo(s, onePair, beam.CreateList(s, numbers(n/blockPairs)))
				e := must[Examples](b)(BoundContributions(s, newTraining(b), Limits{MaxExamplesPerOwner: 1, Pairs: int64(n)}, pairs))
				params := sampling.Params{Scheme: "b-min-sep", Steps: 1000, MinSep: 10, BatchSize: float64(n) / 100}
				batches := must[Batches](b)(SampleBatches(s, Sampling{Params: params, RowsOnly: rowsOnly}, e))
				beam.ParDo0(s, count, must[beam.PCollection](b)(batches.Elements(s)))
				if _, err := beam.Run(b.Context(), "direct", p); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((cpuSeconds(b)-before)/float64(b.N), "cpu-s/op")
			b.ReportMetric(float64(counted.Load())/float64(b.N), "entries/op")
		})
	}
}

// onePair makes a pair of each example with an owner of its own.
func onePair(block int, emit func(int64, int64)) {
	for i := range int64(blockPairs) {
		n := int64(block)*blockPairs + i
		emit(n, n)
	}
}

package contribution_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"reflect"
	"strconv"
	"syscall"
	"testing"

	"minsep/internal/ownergraph"
	"minsep/internal/transforms/contribution"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"

	//lint:ignore SA1019 the local default: it shuffles chunks several times faster than Prism
	"github.com/apache/beam/sdks/v2/go/pkg/beam/runners/direct"
)

func init() {
	beam.RegisterDoFn(reflect.TypeFor[randomEdgesFn]())
	beam.RegisterDoFn(reflect.TypeFor[dropFn]())
}

// randomEdgesFn makes Edges edges: two owners each for half as many examples, of as many owners.
type randomEdgesFn struct{ Edges int }

func (f *randomEdgesFn) ProcessElement(_ []byte, emit func([]byte)) {
	rng := rand.New(rand.NewPCG(5, 6))
	var e ownergraph.Edges
	for i := range f.Edges {
		e.Examples.AppendInt(int64(i / 2))
		e.Owners.AppendInt(int64(rng.IntN(f.Edges / 2)))
		if e.Len() == 4096 || i == f.Edges-1 {
			chunk, err := e.AppendBinary(nil)
			if err != nil {
				panic(err)
			}
			emit(chunk)
			e.Reset(ownergraph.Int64, ownergraph.Int64)
		}
	}
}

type dropFn struct{}

func (*dropFn) ProcessElement(uint32, []byte) {}

// BenchmarkBound bounds a random graph of 1e6 edges, or of MINSEP_BENCH_EDGES, on the direct
// runner, without files.
func BenchmarkBound(b *testing.B) {
	edges := 1_000_000
	if v := os.Getenv("MINSEP_BENCH_EDGES"); v != "" {
		edges, _ = strconv.Atoi(v)
	}
	for _, bound := range []ownergraph.Bound{{MaxExamplesPerOwner: 1}, {MaxExamplesPerOwner: 3}} {
		b.Run(fmt.Sprintf("edges=%d/k=%d", edges, bound.MaxExamplesPerOwner), func(b *testing.B) {
			c, _ := newConfig(b)
			c.Bound, c.Edges = bound, int64(edges)
			before := cpuSeconds()
			for range b.N {
				p, s := beam.NewPipelineWithRoot()
				result, err := contribution.Bound(s, c, beam.ParDo(s, &randomEdgesFn{Edges: edges}, beam.Impulse(s)))
				if err != nil {
					b.Fatal(err)
				}
				beam.ParDo0(s, &dropFn{}, result.Rows)
				if _, err := direct.Execute(context.Background(), p); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric((cpuSeconds()-before)/float64(b.N), "cpu-s/op")
			b.ReportMetric(peakMiB(), "peak-MiB")
		})
	}
}

func usage() (u syscall.Rusage) {
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err)
	}
	return u
}

func cpuSeconds() float64 {
	u := usage()
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

// peakMiB is the greatest memory of this process so far.
func peakMiB() float64 { return float64(usage().Maxrss) / 1024 }

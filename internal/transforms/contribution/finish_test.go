package contribution

import (
	"math/rand/v2"
	"os"
	"strconv"
	"syscall"
	"testing"

	"minsep/internal/ownergraph"
	"minsep/internal/packed"
)

// BenchmarkFinish is the sequential end of the bounding alone: two undecided edges per example,
// four per owner, 1e6 of them or MINSEP_BENCH_EDGES.
func BenchmarkFinish(b *testing.B) {
	edges := 1_000_000
	if v := os.Getenv("MINSEP_BENCH_EDGES"); v != "" {
		edges, _ = strconv.Atoi(v)
	}
	f := &finishFn{Spec: spec{Bound: ownergraph.Bound{MaxExamplesPerOwner: 2}, Buckets: 64}}
	rng := rand.New(rand.NewPCG(1, 2))
	var chunks [][]byte
	keep := func(_ uint32, chunk []byte) { chunks = append(chunks, chunk) }
	p := packed.NewPacker(f.Spec.verdictWidth(), 64)
	for i := range edges {
		e := uint32(i / 2)
		record := appendTurn(nil, newTurn(2, newNumber(e%64, e/64)))
		u := uint32(rng.IntN(edges / 4))
		record = appendNumber(record, newNumber(u%64, u/64))
		record = append(record, 2, 0, 0)
		p.Add(e%64, record, keep)
	}
	p.Flush(keep)
	for b.Loop() {
		refused, rest := 0, chunks
		f.StartBundle(nil)
		count := func(_ uint32, chunk []byte) { refused += len(chunk) / decisionBytes }
		err := f.ProcessElement(0, func(c *[]byte) bool {
			if len(rest) == 0 {
				return false
			}
			*c, rest = rest[0], rest[1:]
			return true
		}, count)
		f.FinishBundle(count)
		if err != nil || refused == 0 {
			b.Fatalf("%d refused: %v", refused, err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(edges), "ns/edge")
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(u.Maxrss)/1024, "peak-MiB")
}

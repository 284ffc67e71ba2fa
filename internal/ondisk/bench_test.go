package ondisk_test

import (
	"math/rand/v2"
	"testing"

	"minsep/internal/ondisk"
	"minsep/internal/ownergraph"
)

// BenchmarkThroughFiles bounds 2^23 edges of two owners for each example, through files.
func BenchmarkThroughFiles(b *testing.B) {
	const n = 1 << 23
	e := new(ownergraph.Edges)
	rng := rand.New(rand.NewPCG(1, 2))
	for i := range int64(n) {
		e.Examples.AppendInt(i / 2)
		e.Owners.AppendInt(rng.Int64N(n / 8))
	}
	b.ReportAllocs()
	for b.Loop() {
		bounder := ondisk.Bounder{Bound: ownergraph.Bound{MaxExamplesPerOwner: 2}, Key: testKey(b), InMemory: n / 2, Dir: b.TempDir()}
		if err := bounder.Add(e); err != nil {
			b.Fatal(err)
		}
		if _, err := bounder.Bounded(b.Context()); err != nil {
			b.Fatal(err)
		}
		bounder.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/edge")
}

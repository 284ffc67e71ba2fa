package pipelines_test

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"minsep/internal/ownergraph"
	"minsep/internal/pipelines"
	"minsep/internal/stream"
	"minsep/sampling"
)

// These benchmarks run whole stages, files written, and report CPU seconds and the peak memory of
// the process. The peak is that of all that ran before in the process, so `make bench` gives each a
// process of its own.

// measure runs stage and reports what it cost.
func measure(b *testing.B, stage func() error) {
	b.Helper()
	before := cpu(b)
	for b.Loop() {
		if err := stage(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric((cpu(b)-before).Seconds()/float64(b.N), "cpu-s/op")
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(usage.Maxrss)/(1<<20), "peak-GiB") // Linux counts in KiB
}

func cpu(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func benchOptions(b *testing.B) pipelines.Options {
	b.Helper()
	key := filepath.Join(b.TempDir(), "key")
	if err := stream.CreateKeyFile(key); err != nil {
		b.Fatal(err)
	}
	return pipelines.Options{Out: filepath.Join(b.TempDir(), "run"), KeyFile: key}
}

func BenchmarkForm(b *testing.B) {
	for _, c := range []struct {
		name     string
		examples int64
		scheme   sampling.Params
	}{
		{"n=7200/b=256/examples=14745600", 14745600, sampling.Params{Scheme: "b-min-sep", Steps: 7200, MinSep: 256, BatchSize: 1793}},
		{"epochs/n=7200/b=256/examples=14745600", 14745600, sampling.Params{Scheme: "epoch-min-sep", Steps: 7200, MinSep: 256, BatchSize: 1793}},
		{"n=1000/b=16/examples=1000000", 1000000, sampling.Params{Scheme: "b-min-sep", Steps: 1000, MinSep: 16, BatchSize: 1024}},
	} {
		b.Run(c.name, func(b *testing.B) {
			o := benchOptions(b)
			measure(b, func() error {
				_, err := pipelines.Form{Params: c.scheme, Examples: c.examples}.Run(b.Context(), o)
				return err
			})
		})
	}
}

// BenchmarkFormMultiOwner forms batches by Algorithm 3 of about 3e5 examples that a bound of two
// examples per owner keeps.
func BenchmarkFormMultiOwner(b *testing.B) {
	o := benchOptions(b)
	graph := writeGraph(b, 1_250_000, 2_500_000)
	bounded, err := pipelines.Bound{Graph: []string{graph}, Bound: ownergraph.Bound{MaxExamplesPerOwner: 2}}.Run(b.Context(), o)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(bounded.Summary.Kept), "examples")
	scheme := sampling.Params{Scheme: "multi-owner", Steps: 1000, MinSep: 32, BatchSize: 1024}
	measure(b, func() error {
		_, err := pipelines.Form{Params: scheme, Bounded: o.Out}.Run(b.Context(), o)
		return err
	})
}

// BenchmarkBound goes from Parquet to Parquet, two edges per example, eight examples per owner.
// MINSEP_BENCH_EDGES adds a size, such as 100000000.
func BenchmarkBound(b *testing.B) {
	sizes := []int{20_000_000}
	if s := os.Getenv("MINSEP_BENCH_EDGES"); s != "" {
		n, err := strconv.Atoi(s)
		if err != nil {
			b.Fatal(err)
		}
		sizes = []int{n}
	}
	for _, edges := range sizes {
		b.Run(fmt.Sprintf("edges=%d/k=2", edges), func(b *testing.B) {
			o := benchOptions(b)
			graph := writeGraph(b, edges/2, edges)
			measure(b, func() error {
				_, err := pipelines.Bound{Graph: []string{graph}, Bound: ownergraph.Bound{MaxExamplesPerOwner: 2}}.Run(b.Context(), o)
				return err
			})
		})
	}
}

type edge struct {
	Example int64 `parquet:"example_id"`
	Owner   int64 `parquet:"owner_id"`
}

// writeGraph writes a Parquet edge list in which each example has as many owners, drawn at random,
// four times fewer owners than examples.
func writeGraph(b *testing.B, examples, edges int) string {
	b.Helper()
	path := filepath.Join(b.TempDir(), "graph.parquet")
	f, err := os.Create(path)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	w := parquet.NewGenericWriter[edge](f, parquet.Compression(&parquet.Snappy))
	rng := rand.New(rand.NewPCG(1, 2))
	batch := make([]edge, 1<<16)
	for done := 0; done < edges; {
		n := min(len(batch), edges-done)
		for i := range n {
			batch[i] = edge{int64((done + i) / (edges / examples)), rng.Int64N(int64(examples / 4))}
		}
		if _, err := w.Write(batch[:n]); err != nil {
			b.Fatal(err)
		}
		if done += n; done%(1<<20) < n {
			if err := w.Flush(); err != nil {
				b.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		b.Fatal(err)
	}
	return path
}

// BenchmarkPools compares 20 pools of 1e7 edges with one bound of one example per owner, in memory
// and by a Beam job. MINSEP_BENCH_EDGES takes another size.
func BenchmarkPools(b *testing.B) {
	edges := 10_000_000
	if s := os.Getenv("MINSEP_BENCH_EDGES"); s != "" {
		var err error
		if edges, err = strconv.Atoi(s); err != nil {
			b.Fatal(err)
		}
	}
	graph := writeGraph(b, edges/2, edges)
	for _, buckets := range []int{0, 10} {
		for _, pools := range []int{0, 20} {
			b.Run(fmt.Sprintf("edges=%d/buckets=%d/pools=%d", edges, buckets, pools), func(b *testing.B) {
				o := benchOptions(b)
				measure(b, func() error {
					_, err := pipelines.Bound{Graph: []string{graph}, Bound: ownergraph.Bound{MaxExamplesPerOwner: 1, Pools: pools}, Buckets: buckets}.Run(b.Context(), o)
					return err
				})
			})
		}
	}
}

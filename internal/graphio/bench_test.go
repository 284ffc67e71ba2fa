package graphio_test

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"syscall"
	"testing"
	"time"

	"github.com/parquet-go/parquet-go"

	"minsep/internal/graphio"
)

// benchRows are edges of integers as a dataset of 1e7 examples has them.
type benchRow struct {
	Example int64 `parquet:"example_id"`
	Owner   int64 `parquet:"owner_id"`
}

const benchEdges = 1 << 20

func benchRows() []benchRow {
	rng := rand.New(rand.NewPCG(1, 2))
	rows := make([]benchRow, benchEdges)
	for i := range rows {
		rows[i] = benchRow{int64(i/2 + 10_000_000), rng.Int64N(3_000_000)}
	}
	return rows
}

func benchmarkRead(b *testing.B, name string, data []byte) {
	o := graphio.Options{FS: memory(data)}
	src, err := graphio.Open(context.Background(), []string{name}, o)
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.SetBytes(int64(len(data)))
	before := cpu(b)
	for b.Loop() {
		n := 0
		if err := src.Read(context.Background(), func(batch *graphio.Batch) error { n += batch.Owners.Len(); return nil }); err != nil || n != benchEdges {
			b.Fatal(n, err)
		}
	}
	b.ReportMetric(float64(b.N)*benchEdges/(cpu(b)-before).Seconds()/1e6, "Medges/cpu-s")
}

// cpu is the processor time of this process, which other work on the machine hardly changes.
func cpu(b *testing.B) time.Duration {
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

func BenchmarkRead(b *testing.B) {
	rows := benchRows()
	for _, f := range []struct {
		name string
		make func() []byte
	}{
		{"tsv", func() (out []byte) {
			for _, r := range rows {
				out = fmt.Appendf(out, "%d\t%d\n", r.Example, r.Owner)
			}
			return out
		}},
		{"csv", func() (out []byte) {
			for _, r := range rows {
				out = fmt.Appendf(out, "%d,%d\n", r.Example, r.Owner)
			}
			return out
		}},
		{"ndjson", func() (out []byte) {
			for i := 0; i < len(rows); i += 2 {
				out = fmt.Appendf(out, "{\"example_id\": %d, \"owners\": [%d, %d]}\n", rows[i].Example, rows[i].Owner, rows[i+1].Owner)
			}
			return out
		}},
		{"parquet", func() []byte {
			var out bytes.Buffer
			w := parquet.NewGenericWriter[benchRow](&out, parquet.Compression(&parquet.Snappy))
			w.Write(rows)
			w.Close()
			return out.Bytes()
		}},
		{"list.parquet", func() []byte {
			type row struct {
				Example int64   `parquet:"example_id"`
				Owners  []int64 `parquet:"owners,list"`
			}
			var out bytes.Buffer
			w := parquet.NewGenericWriter[row](&out, parquet.Compression(&parquet.Zstd))
			for i := 0; i < len(rows); i += 2 {
				w.Write([]row{{rows[i].Example, []int64{rows[i].Owner, rows[i+1].Owner}}})
			}
			w.Close()
			return out.Bytes()
		}},
	} {
		b.Run(f.name, func(b *testing.B) { benchmarkRead(b, "g."+f.name, f.make()) })
	}
}

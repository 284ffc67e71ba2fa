package kernel

import (
	"testing"

	"minsep/internal/montecarlo/internal/likelihood"
	"minsep/sampling"
)

func BenchmarkBatch(b *testing.B) {
	for _, x := range []struct {
		name  string
		bands int
		law   interface {
			Law() sampling.Law
			NumSteps() int
		}
		sigma float64
	}{
		{"b-min-sep 7200/256", 256, sampling.BMinSep{Prob: 1.255e-4, Steps: 7200, MinSep: 256, WarmStart: true}, 0.45},
		{"b-min-sep 1024/16", 16, sampling.BMinSep{Prob: 0.02, Steps: 1024, MinSep: 16, WarmStart: true}, 0.8},
		{"b-min-sep 1000/32", 32, sampling.BMinSep{Prob: 0.03, Steps: 1000, MinSep: 32, WarmStart: true}, 1},
		{"epochs 1000/16", 16, sampling.EpochMinSep{Steps: 1000, MinSep: 16, EpochSteps: 138}, 0.63},
		{"rotation 1000/16", 16, sampling.Rotation{Steps: 1000, EpochSteps: 138}, 0.63},
		{"rotation 7200/64", 64, sampling.Rotation{Steps: 7200, EpochSteps: 1800}, 0.6},
	} {
		b.Run(x.name, func(b *testing.B) {
			c := likelihood.Toeplitz(x.law.NumSteps(), sqrtColumn(x.bands))
			k := New(c, x.sigma, ratioOf(x.law.Law(), c, x.sigma))
			in, out := &Input{Bulk: testBulk()}, new(Output)
			b.ResetTimer()
			for i := range b.N {
				in.Number = uint64(i)
				k.Batch(in, out)
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/Lanes, "µs/sample")
		})
	}
}

package kernel

import (
	"fmt"
	"testing"

	"minsep/internal/montecarlo/internal/law"
	"minsep/internal/montecarlo/internal/likelihood"
)

func benchmark(b *testing.B, n, minSep int, sigma, p float64, ratios func(p likelihood.Process, c *likelihood.Columns) likelihood.Ratio) {
	c := likelihood.Toeplitz(n, sqrtColumn(minSep))
	k := New(c, sigma, ratios(likelihood.Process{Steps: n, MinSep: minSep, Prob: p, WarmStart: true}, c))
	in, out := &Input{Bulk: testBulk()}, new(Output)
	b.ResetTimer()
	for i := range b.N {
		in.Number = uint64(i)
		k.Batch(in, out)
	}
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N)/Lanes, "µs/sample")
}

func BenchmarkMinSep(b *testing.B) {
	for _, c := range []struct {
		n, minSep int
		sigma, p  float64
	}{{7200, 256, 0.45, 1.255e-4}, {1024, 16, 0.8, 0.02}, {1000, 32, 1, 0.03}, {10000, 64, 0.8, 0.005}} {
		b.Run(fmt.Sprintf("n=%d/b=%d", c.n, c.minSep), func(b *testing.B) {
			benchmark(b, c.n, c.minSep, c.sigma, c.p, func(p likelihood.Process, m *likelihood.Columns) likelihood.Ratio {
				return likelihood.MinSep(p, m.SquaredNorms(1/(c.sigma*c.sigma)))
			})
		})
	}
}

func BenchmarkEpochs(b *testing.B) {
	for _, c := range []struct {
		n, minSep, epoch int
		sigma            float64
	}{{7200, 256, 1800, 0.6}, {1000, 16, 250, 0.55}, {1000, 16, 138, 0.63}} {
		b.Run(fmt.Sprintf("n=%d/b=%d", c.n, c.minSep), func(b *testing.B) {
			benchmark(b, c.n, c.minSep, c.sigma, 0, func(_ likelihood.Process, m *likelihood.Columns) likelihood.Ratio {
				return likelihood.NewChain(law.NewEpochs(c.n, c.minSep, c.epoch), m.SquaredNorms(1/(c.sigma*c.sigma)))
			})
		})
	}
}

func BenchmarkRotation(b *testing.B) {
	for _, c := range []struct {
		n, bands, period int
		sigma            float64
	}{{7200, 256, 1800, 0.6}, {1000, 16, 138, 0.63}} {
		b.Run(fmt.Sprintf("n=%d/w=%d", c.n, c.bands), func(b *testing.B) {
			benchmark(b, c.n, c.bands, c.sigma, 0, func(_ likelihood.Process, m *likelihood.Columns) likelihood.Ratio {
				return likelihood.NewRotation(likelihood.Periods{Steps: c.n, Period: c.period}, m, 1/(c.sigma*c.sigma))
			})
		})
	}
}

func BenchmarkTwoExamples(b *testing.B) {
	const n, minSep, sigma = 1000, 32, 1.5
	b.Run("b-min-sep", func(b *testing.B) {
		benchmark(b, n, minSep, sigma, 0.004, func(p likelihood.Process, m *likelihood.Columns) likelihood.Ratio {
			return likelihood.NewOwner(p, m, 2, 1/(sigma*sigma))
		})
	})
	b.Run("epoch-min-sep", func(b *testing.B) {
		benchmark(b, n, minSep, sigma, 0, func(_ likelihood.Process, m *likelihood.Columns) likelihood.Ratio {
			return likelihood.NewEpochPair(minSep, 250, m, 1/(sigma*sigma))
		})
	})
}

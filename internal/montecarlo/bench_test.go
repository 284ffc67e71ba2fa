package montecarlo

import (
	"fmt"
	"testing"

	"minsep/sampling"
)

// speedSpecs are the rows of the speed table.
func speedSpecs() map[string]Spec {
	spec := func(n, b int, p, sigma float64) Spec {
		return specOf(sampling.BMinSep{Steps: n, MinSep: b, Prob: p, WarmStart: true}, toeplitz(n, sqrtColumn(b)...), sigma)
	}
	two := spec(1000, 32, 0.004, 1.5)
	two.MaxExamplesPerOwner = 2
	return map[string]Spec{
		"n=7200,b=256": spec(7200, 256, 1.255e-4, 0.45),
		"n=1024,b=16":  spec(1024, 16, 0.0204, 0.8),
		"n=1000,b=32":  spec(1000, 32, 0.03, 1),
		"two examples": two,
	}
}

func BenchmarkLosses(b *testing.B) {
	for name, s := range speedSpecs() {
		for _, d := range Directions {
			b.Run(fmt.Sprintf("%s/%s", name, d), func(b *testing.B) {
				sampler := mustSampler(b, s, d, testKeyOf(name))
				losses := make([]float64, 64)
				b.ResetTimer()
				for i := range b.N {
					sampler.Losses(losses, uint64(64*i))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/1000/float64(64*b.N), "µs/sample")
			})
		}
	}
}

package montecarlo

import (
	"fmt"
	"testing"

	"minsep/sampling"
)

// BenchmarkLosses draws 64 samples of P at a time: the rows of `make bench`.
func BenchmarkLosses(b *testing.B) {
	for _, c := range []struct {
		steps, bands int
		prob, sigma  float64
	}{{7200, 256, 1.255e-4, 0.45}, {1024, 16, 0.0204, 0.8}, {1000, 32, 0.03, 1}} {
		b.Run(fmt.Sprintf("n=%d,b=%d", c.steps, c.bands), func(b *testing.B) {
			process := sampling.BMinSep{Steps: c.steps, MinSep: c.bands, Prob: c.prob, WarmStart: true}
			sampler := mustSampler(b, specOf(process, toeplitz(c.steps, sqrtColumn(c.bands)...), c.sigma), P, testKeyOf("bench"))
			losses := make([]float64, 64)
			for i := range b.N {
				sampler.Losses(losses, uint64(64*i))
			}
		})
	}
}

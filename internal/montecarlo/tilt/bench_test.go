package tilt

import (
	"testing"

	"minsep/internal/montecarlo"
	"minsep/mechanism"
	"minsep/sampling"
)

// benchCase is a Config with the strategy of the banded square root of unit norm.
func benchCase(tb testing.TB, steps, sep int, rate, sigma, epsilon float64) Config {
	tb.Helper()
	c := make([]float64, sep)
	c[0] = 1
	for j := 1; j < sep; j++ {
		c[j] = c[j-1] * (1 - 1/(2*float64(j)))
	}
	return Config{specOf(sampling.BMinSep{Prob: rate / (1 - rate*float64(sep-1)), Steps: steps, MinSep: sep, WarmStart: true}, &mechanism.Strategy{Kind: mechanism.KindBSR, Steps: steps, Toeplitz: c, Normalized: true}, sigma), epsilon, montecarlo.P}
}

var benchCases = []struct {
	name                 string
	steps, sep           int
	rate, sigma, epsilon float64
}{
	{"n=7200,b=256", 7200, 256, 1793.0 / 14745600, 0.42, 10},
	{"n=1024,b=16", 1024, 16, 1. / 64, 1.2, 4},
	{"n=1000,b=32", 1000, 32, 1. / 64, 1.2, 4},
}

func BenchmarkProposal(b *testing.B) {
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			config := benchCase(b, c.steps, c.sep, c.rate, c.sigma, c.epsilon)
			for range b.N {
				if _, err := NewProposal(b.Context(), config); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkTuple(b *testing.B) {
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			v := testVerifier(b, benchCase(b, c.steps, c.sep, c.rate, c.sigma, c.epsilon))
			b.ResetTimer()
			for i := range b.N {
				v.uniforms.reset(uint64(i))
				v.hits[0], _ = v.draw[v.member()](v.hits[0], &v.uniforms)
			}
		})
	}
}

// BenchmarkValue takes one value an operation.
func BenchmarkValue(b *testing.B) {
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			v := testVerifier(b, benchCase(b, c.steps, c.sep, c.rate, c.sigma, c.epsilon))
			values := make([]float64, 8*((b.N+7)/8))
			b.ResetTimer()
			v.Values(values, 0)
		})
	}
}

func BenchmarkSmallestProvable(b *testing.B) {
	for _, c := range benchCases {
		b.Run(c.name, func(b *testing.B) {
			config := benchCase(b, c.steps, c.sep, c.rate, c.sigma, c.epsilon)
			for range b.N {
				if _, err := SmallestProvable(config.Spec, c.epsilon, 1.3e-8); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

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

package pld

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestCyclic: the events are at least as bad as each part's steps, and no worse than the largest of all
// parts' norms by rank, but for norms that are next to equal.
func TestCyclic(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for range 200 {
		steps, minSep := 1+rng.IntN(12), 1+rng.IntN(5)
		norms := make([]float64, steps)
		for i := range norms {
			norms[i] = float64(1+rng.IntN(4)) * (1 + 4e-6*rng.Float64())
		}
		want := make([]float64, (steps+minSep-1)/minSep) // by rank
		for phase := range minSep {
			var part []float64
			for i := phase; i < steps; i += minSep {
				part = append(part, norms[i])
			}
			slices.Sort(part)
			slices.Reverse(part)
			for j, norm := range part {
				want[j] = max(want[j], norm)
			}
		}
		var got []float64
		for _, s := range Cyclic(Release{Prob: 0.5, NoiseMultiplier: 2, Examples: 1}, norms, minSep) {
			e := s.Event.(Release)
			if e.Prob != 0.5 || e.NoiseMultiplier != 2 || e.Examples != 1 || e.Truncation != nil {
				t.Fatalf("%+v", e)
			}
			got = append(got, slices.Repeat([]float64{e.Sensitivity}, s.Count)...)
		}
		if !slices.EqualFunc(got, want, func(a, b float64) bool { return a >= b && a <= b*(1+2*normTolerance) }) {
			t.Errorf("%v in %d parts: %v, want %v", norms, minSep, got, want)
		}
	}
	bad := Cyclic(Release{Prob: 0.5, NoiseMultiplier: 2, Examples: 1}, []float64{1, math.NaN(), 1}, 1)
	if _, err := Compose(bad, Options{}); err == nil {
		t.Error("a norm that is no number is taken")
	}
}

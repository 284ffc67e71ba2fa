package stattest_test

import (
	"math/rand/v2"
	"testing"

	"minsep/internal/stattest"
)

func TestAcceptsTheDistribution(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for round := range 200 {
		const n, p = 5000, 0.013
		count, sum := 0, 0.0
		cells := make([]int, 40)
		distribution := make([]float64, len(cells))
		for i := range distribution {
			distribution[i] = float64(i+1) / float64(len(distribution)*(len(distribution)+1)/2)
		}
		for range n {
			u := rng.Float64()
			if u < p {
				count++
			}
			sum += u
			v := rng.Float64()
			i := 0
			for ; i < len(distribution)-1 && v >= distribution[i]; i++ {
				v -= distribution[i]
			}
			cells[i]++
		}
		for what, err := range map[string]error{
			"count": stattest.Count(count, n, p), "sum": stattest.Sum(sum, n/2, n/12.0, 0.5),
			"cells": stattest.Distribution(cells, distribution),
		} {
			if err != nil {
				t.Errorf("round %d, %s: %v", round, what, err)
			}
		}
	}
}

// TestRejects holds the power: what is refused, next to what is not.
func TestRejects(t *testing.T) {
	uniform := []float64{0.25, 0.25, 0.25, 0.25}
	for _, c := range []struct {
		name    string
		err     error
		refused bool
	}{
		{"count 6 standard deviations off", stattest.Count(50000+6*158, 100000, 0.5), false},
		{"count 7 standard deviations off", stattest.Count(50000+7*158, 100000, 0.5), true},
		{"count 7 below", stattest.Count(50000-7*158, 100000, 0.5), true},
		{"impossible count", stattest.Count(1, 100000, 0), true},
		{"certain", stattest.Count(10, 10, 1), false},
		{"not certain", stattest.Count(9, 10, 1), true},
		{"sum 6 off", stattest.Sum(6, 0, 1, 0.001), false},
		{"sum 7 off", stattest.Sum(7, 0, 1, 0.001), true},
		{"even cells", stattest.Distribution([]int{1000, 1010, 990, 1000}, uniform), false},
		{"uneven cells", stattest.Distribution([]int{1000, 1300, 700, 1000}, uniform), true},
		{"impossible cell", stattest.Distribution([]int{5, 1}, []float64{1, 0}), true},
		{"no distribution", stattest.Distribution([]int{5, 1}, []float64{1, 1}), true},
	} {
		if (c.err != nil) != c.refused {
			t.Errorf("%s: got %v, want refused = %v", c.name, c.err, c.refused)
		}
	}
}

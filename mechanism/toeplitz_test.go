package mechanism_test

import (
	"math"
	"testing"
	"time"

	"minsep/mechanism"
)

func TestOptimalToeplitzGolden(t *testing.T) {
	var golden struct {
		Cases []struct {
			N         int       `json:"n"`
			Bands     int       `json:"bands"`
			Objective string    `json:"objective"`
			Loss      float64   `json:"loss"`
			First     []float64 `json:"c_first8"`
		}
	}
	readGolden(t, "toeplitz_strategies.json", &golden)
	for _, c := range golden.Cases {
		p := mechanism.Problem{Workload: mechanism.Prefix(c.N), Objective: c.Objective}
		start := time.Now()
		s, conv, err := p.OptimalToeplitz(c.Bands)
		if err != nil {
			t.Errorf("n %d, bands %d, %s: %v", c.N, c.Bands, c.Objective, err)
			continue
		}
		t.Logf("n %d, bands %d, %s: loss/golden-1 %.2g, gap %.2g, %d iterations, %v", c.N, c.Bands, c.Objective, conv.Loss/c.Loss-1, conv.Gap, conv.Iterations, time.Since(start))
		if rel := conv.Loss/c.Loss - 1; math.Abs(rel) > 1e-9 {
			t.Errorf("n %d, bands %d, %s: loss %v, want %v, relative difference %.2g", c.N, c.Bands, c.Objective, conv.Loss, c.Loss, rel)
		}
		for j, v := range c.First {
			if math.Abs(s.Toeplitz[j]-v) > 1e-4 {
				t.Errorf("n %d, bands %d, %s: c[%d] = %v, want %v", c.N, c.Bands, c.Objective, j, s.Toeplitz[j], v)
			}
		}
	}
}

func BenchmarkOptimalToeplitz(b *testing.B) {
	for _, c := range []struct {
		name     string
		n, bands int
	}{{"n=4096/b=64", 4096, 64}, {"n=16384/b=64", 16384, 64}, {"n=1e6/b=32", 1_000_000, 32}} {
		b.Run(c.name, func(b *testing.B) {
			for b.Loop() {
				p := mechanism.Problem{Workload: mechanism.Prefix(c.n)}
				_, conv, err := p.OptimalToeplitz(c.bands)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(conv.Loss, "loss")
				b.ReportMetric(float64(conv.Iterations), "iterations")
			}
		})
	}
}

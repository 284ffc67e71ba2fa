package noise

import (
	"testing"

	"minsep/internal/must"
	"minsep/mechanism"
)

// BenchmarkNoise makes float32 noise of 1e6 coordinates on one core.
func BenchmarkNoise(b *testing.B) {
	const steps, coordinates, rows = 4096, 1000000, 64
	for name, bands := range map[string]int{"iid": 1, "bands=16": 16} {
		s := mechanism.Identity(steps)
		if bands > 1 {
			column := []float64{1}
			for j := 1; j < bands; j++ {
				column = append(column, column[j-1]*(1-0.5/float64(j)))
			}
			s = &mechanism.Strategy{Kind: mechanism.KindBSR, Steps: steps, Toeplitz: column}
		}
		r := bind(b, Config{Strategy: s, Coordinates: coordinates, NoiseMultiplier: 1, ClipNorm: 1})
		b.Run(name, func(b *testing.B) {
			g := generator(b, r, 0, coordinates)
			g.Workers = 1
			dst := make([]float32, rows*coordinates)
			for b.Loop() {
				if g.Step()+rows > steps {
					b.StopTimer()
					g = generator(b, r, 0, coordinates)
					g.Workers = 1
					b.StartTimer()
				}
				must.Do(b, g.Fill32(dst))
			}
		})
	}
}

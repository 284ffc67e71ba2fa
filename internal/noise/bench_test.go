package noise

import (
	"fmt"
	"testing"

	"minsep/internal/must"
	"minsep/mechanism"
)

// BenchmarkNoise makes float32 noise of 1e6 coordinates on one core, with the words of each kind.
func BenchmarkNoise(b *testing.B) {
	const steps = 4096
	cases := []struct {
		name string
		s    *mechanism.Strategy
	}{{"iid", mechanism.Identity(steps)}}
	for _, bands := range []int{2, 16, 32, 256} {
		c := []float64{1}
		for j := 1; j < bands; j++ {
			c = append(c, c[j-1]*(1-0.5/float64(j)))
		}
		cases = append(cases, struct {
			name string
			s    *mechanism.Strategy
		}{fmt.Sprintf("bands=%d", bands), &mechanism.Strategy{Kind: mechanism.KindBSR, Steps: steps, Toeplitz: c}})
	}
	cases = append(cases, struct {
		name string
		s    *mechanism.Strategy
	}{"inverse=4", &mechanism.Strategy{Kind: mechanism.KindBISR, Steps: steps, InverseToeplitz: []float64{1, -.5, -.125, -.0625}}})
	cases = append(cases, strategy4(steps))
	for _, c := range cases {
		for _, words := range []Words{AES128, ChaCha12} {
			benchmarkNoise(b, c.name, c.s, words)
		}
	}
}

// benchmarkNoise makes rows of a strategy with the words of a kind.
func benchmarkNoise(b *testing.B, name string, s *mechanism.Strategy, words Words) {
	if words != AES128 {
		name = string(words) + "," + name
	}
	steps := s.Steps
	b.Run(name, func(b *testing.B) {
		coordinates, rows := int64(1000000), 64
		if bands := s.Bands(); bands == 256 {
			coordinates, rows = 100000, 128 // the state of 1e6 coordinates is 2 GB
		}
		r := bind(b, Config{Strategy: s, Coordinates: coordinates, NoiseMultiplier: 1, ClipNorm: 1, Words: words})
		g := generator(b, r, 0, coordinates)
		g.Workers = 1
		dst := make([]float32, rows*int(coordinates))
		for b.Loop() {
			if g.Step()+rows > steps {
				b.StopTimer()
				g = generator(b, r, 0, coordinates)
				g.Workers = 1
				b.StartTimer()
			}
			must.Do(b, g.Fill32(dst))
		}
		b.ReportMetric(float64(b.N)*float64(len(dst))/b.Elapsed().Seconds()/1e6, "Mvalues/s")
	})
}

func strategy4(steps int) (c struct {
	name string
	s    *mechanism.Strategy
}) {
	c.name = "blt=4"
	c.s = &mechanism.Strategy{Kind: mechanism.KindBLT, Steps: steps, BLT: &mechanism.BLT{Scales: []float64{.2, .15, .1, .05}, Decays: []float64{.99, .9, .6, .1}}}
	return c
}

package tilt

import "math"

func dot(x, y []float64) float64 {
	s := 0.0
	for i := range min(len(x), len(y)) {
		s += x[i] * y[i]
	}
	return s
}

func euclidean(x []float64) float64 { return math.Sqrt(dot(x, x)) }

package tilt

import (
	"math"

	"minsep/mechanism"
)

// reject9 is the one-sided normal quantile of a false-reject probability of 1e-9.
const reject9 = 5.998

// pattern is one participation pattern of one example with its probability.
type pattern struct {
	hits []int
	prob float64
}

// patterns lists every pattern of the process with a positive probability, from its definition
// (arXiv 2602.09338, Algorithms 1 and 2).
func patterns(steps, sep int, p float64, warm bool) (list []pattern) {
	var walk func(i, blocked int, hits []int, prob float64)
	walk = func(i, blocked int, hits []int, prob float64) {
		if i == steps {
			for k := range list { // several waits can give one pattern
				if equal(list[k].hits, hits) {
					list[k].prob += prob
					return
				}
			}
			list = append(list, pattern{append([]int(nil), hits...), prob})
			return
		}
		if blocked > 0 {
			walk(i+1, blocked-1, hits, prob)
			return
		}
		if p < 1 {
			walk(i+1, 0, hits, prob*(1-p))
		}
		walk(i+1, sep-1, append(hits, i), prob*p)
	}
	if !warm {
		walk(0, 0, nil, 1)
		return list
	}
	total := 1 + float64(sep-1)*p
	walk(0, 0, nil, 1/total)
	for s := 1; s < sep; s++ {
		walk(0, s, nil, p/total)
	}
	return list
}

func equal(a, b []int) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return true
}

// image returns C x for a pattern, by dense columns.
func image(c *mechanism.Strategy, hits []int) []float64 {
	y := make([]float64, c.Steps)
	for _, i := range hits {
		for r, v := range c.Column(nil, i) {
			y[i+r] += v
		}
	}
	return y
}

// eachTuple calls f with every θ-tuple of patterns and its weight Π π exp(Σ_{j<k} ⟨Cx_j,Cx_k⟩/σ²).
func eachTuple(c *mechanism.Strategy, list []pattern, sigma float64, theta int, f func(tuple []int, weight float64)) {
	gram := make([][]float64, len(list))
	for a := range list {
		gram[a] = make([]float64, len(list))
		for b := range list {
			gram[a][b] = dot(image(c, list[a].hits), image(c, list[b].hits)) / (sigma * sigma)
		}
	}
	tuple := make([]int, theta)
	var walk func(at int, weight float64)
	walk = func(at int, weight float64) {
		if at == theta {
			f(tuple, weight)
			return
		}
		for k, x := range list {
			e := 0.0
			for _, other := range tuple[:at] {
				e += gram[other][k]
			}
			tuple[at] = k
			walk(at+1, weight*x.prob*math.Exp(e))
		}
	}
	walk(0, 1)
}

func dot(x, y []float64) float64 {
	s := 0.0
	for i, v := range x {
		s += v * y[i]
	}
	return s
}

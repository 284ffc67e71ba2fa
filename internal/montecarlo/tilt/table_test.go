package tilt

import (
	"fmt"
	"math"

	"minsep/internal/montecarlo/internal/kernel"
	"minsep/mechanism"
)

func toeplitz(steps int, c ...float64) *mechanism.Strategy {
	return &mechanism.Strategy{Kind: mechanism.KindToeplitz, Steps: steps, Toeplitz: c}
}

// varying has columns of different norms and shapes, with the given bands.
func varying(steps, bands int) *mechanism.Strategy {
	s := &mechanism.Strategy{Kind: mechanism.KindBanded, Steps: steps, Columns: make([][]float64, steps)}
	for i := range s.Columns {
		for r := range min(bands, steps-i) {
			s.Columns[i] = append(s.Columns[i], 1/float64(1+r)+0.1*math.Sin(float64(i*(r+1)))*math.Sin(float64(i)))
		}
	}
	return s
}

type tableCase struct {
	c     *mechanism.Strategy
	sep   int
	p     float64
	sigma float64
	theta int
}

func (c tableCase) String() string {
	return fmt.Sprintf("%s n=%d b=%d p=%v σ=%v θ=%d", c.c.Kind, c.c.Steps, c.sep, c.p, c.sigma, c.theta)
}

// tupleKey writes a tuple of patterns as the walk reports it: replicas by step.
func tupleKey(list []pattern, tuple []int) string {
	var count [64]int
	for _, k := range tuple {
		for _, i := range list[k].hits {
			count[i]++
		}
	}
	key := ""
	for i, n := range count {
		if n > 0 {
			key += fmt.Sprintf("%d:%d ", i, n)
		}
	}
	return key
}

func hitsKey(hits []kernel.Hit) string {
	key := ""
	for _, h := range hits {
		key += fmt.Sprintf("%d:%d ", h.Step, h.Times)
	}
	return key
}

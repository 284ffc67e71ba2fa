package main

import (
	"fmt"
	"math"

	"gonum.org/v1/gonum/floats"
	"gonum.org/v1/gonum/optimize"

	"minsep/mechanism"
)

// cut is the approximate loss of arXiv 2405.15913, Appendix I: the largest squared error of prefix
// sums over steps, times ‖θ‖², where y = C⁻¹1 is computed for terms steps only and taken as its
// limit 1/Σθ from there on.
type cut struct {
	steps, terms int
}

// logLoss returns the logarithm of the loss of C's first column theta and adds its gradient to
// grad.
func (c cut) logLoss(theta, grad []float64) float64 {
	y, l := make([]float64, c.terms), make([]float64, c.terms)
	for i := range y {
		y[i] = 1
		for j := 1; j < len(theta) && j <= i; j++ {
			y[i] -= theta[j] * y[i-j]
		}
		y[i] /= theta[0]
	}
	sum, rest := floats.Sum(theta), float64(c.steps-c.terms)
	loss := floats.Dot(y, y) + rest/(sum*sum)
	if math.IsNaN(loss) || math.IsInf(loss, 0) {
		return math.Inf(1)
	}
	square := floats.Dot(theta, theta)
	// l = C^-T 2y; the derivative of Σ y_i² by θ_j is -Σ_i l_i y_{i-j}
	for i := c.terms - 1; i >= 0; i-- {
		l[i] = 2 * y[i]
		for j := 1; j < len(theta) && i+j < c.terms; j++ {
			l[i] -= theta[j] * l[i+j]
		}
		l[i] /= theta[0]
	}
	for j := range theta {
		products := 0.0
		if j < c.terms {
			products = floats.Dot(l[j:], y[:c.terms-j])
		}
		grad[j] += (-products-2*rest/(sum*sum*sum))/loss + 2*theta[j]/square
	}
	return math.Log(loss) + math.Log(square)
}

// optimum minimises the loss by L-BFGS over columns that begin with 1, from θ_i = 1/i.
func (c cut) optimum(bands int) ([]float64, error) {
	theta := make([]float64, bands)
	for i := range theta {
		theta[i] = 1 / float64(i+1)
	}
	grad := make([]float64, bands)
	at := func(x []float64) float64 {
		copy(theta[1:], x)
		clear(grad)
		return c.logLoss(theta, grad)
	}
	problem := optimize.Problem{Func: at, Grad: func(g, x []float64) { at(x); copy(g, grad[1:]) }}
	result, err := optimize.Minimize(problem, theta[1:], &optimize.Settings{GradientThreshold: 1e-6, MajorIterations: 2000}, &optimize.LBFGS{Store: 30})
	if result == nil {
		return nil, err
	}
	at(result.X)
	if worst := floats.Norm(grad[1:], math.Inf(1)); worst > 1e-5 {
		return nil, fmt.Errorf("not optimised: gradient %v, %v, %v", worst, result.Status, err)
	}
	return theta, nil
}

func scalingBanded() ([]row, error) {
	const n, b = 1 << 16, 64
	p := mechanism.Problem{Workload: mechanism.Prefix(n), Objective: mechanism.MaxError}
	best, err := leastLoss(p, mechanism.KindBandedToeplitz, b)
	if err != nil {
		return nil, err
	}
	var rows []row
	for _, c := range []struct {
		name, published string
		terms           int
	}{{"m = b", "1.032", b}, {"m = b²", "1.0", b * b}} {
		theta, err := cut{n, c.terms}.optimum(b)
		if err != nil {
			return nil, err
		}
		s, err := mechanism.Toeplitz(n, theta)
		if err != nil {
			return nil, err
		}
		loss, err := p.Loss(s)
		if err != nil {
			return nil, err
		}
		rows = append(rows, row{name: c.name, published: c.published, computed: math.Sqrt(loss / best)})
	}
	return rows, nil
}

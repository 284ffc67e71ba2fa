package balanced

import (
	"errors"
	"fmt"
	"math"
)

// Bounds of the solver.
const (
	maxRounds = 2000
	tolerance = 2e-13 // largest relative error of a rate
)

// weights are the ω of F3.9 and the numbers that follow from them. Row i of w and free holds the
// classes 0 … most: how many participations are left.
//
// Every machine computes the same bits: the order of operations is fixed, there are sums, products
// and quotients only, and each product is converted, which keeps compilers from fusing it with a
// sum.
type weights struct {
	steps, minSep, most int
	more                float64   // probability of the class most at the start; the class is most-1 otherwise
	omega               []float64 // of each step
	w                   []float64 // W_i^j
	free                []float64 // Pr[free before step i with j left]
	rate                []float64 // Pr[participation] of each step
}

func newWeights(steps, minSep, most int, more float64) *weights {
	x := &weights{steps: steps, minSep: minSep, most: most, more: more, omega: make([]float64, steps), rate: make([]float64, steps),
		w: make([]float64, (steps+1)*(most+1)), free: make([]float64, (steps+1)*(most+1))}
	// Of all patterns the k free places without their gaps, so that W is near e^k.
	start := float64(most) / float64(steps-(most-1)*(minSep-1))
	for i := range x.omega {
		x.omega[i] = start
	}
	return x
}

// row returns the classes of a step.
func (x *weights) row(of []float64, i int) []float64 {
	size := x.most + 1
	return of[i*size : i*size+size]
}

// next is the row of the first step at which an example that takes part at step i is free.
func (x *weights) next(i int) int { return min(x.steps, i+x.minSep) }

// backward computes W from ω and says whether its range was kept.
func (x *weights) backward() bool {
	last := x.row(x.w, x.steps)
	clear(last)
	last[0] = 1
	for i := x.steps - 1; i >= 0; i-- {
		w, stay, jump := x.row(x.w, i), x.row(x.w, i+1), x.row(x.w, x.next(i))
		w[0] = 1
		for j := 1; j <= x.most; j++ {
			w[j] = stay[j] + float64(x.omega[i]*jump[j-1])
		}
	}
	for _, v := range x.row(x.w, 0) {
		if !(v > 1e-250 && v < 1e250) {
			return false
		}
	}
	return true
}

// forward computes the rates from ω and W.
func (x *weights) forward() {
	clear(x.free)
	start := x.row(x.free, 0)
	start[x.most] = x.more
	start[x.most-1] = 1 - x.more
	for i := range x.steps {
		w, stay, jump := x.row(x.w, i), x.row(x.w, i+1), x.row(x.w, x.next(i))
		free, then, after := x.row(x.free, i), x.row(x.free, i+1), x.row(x.free, x.next(i))
		total := 0.0
		for j := 1; j <= x.most; j++ {
			if free[j] == 0 || w[j] == 0 {
				continue
			}
			scaled := free[j] / w[j]
			in := float64(scaled * float64(x.omega[i]*jump[j-1]))
			then[j] += float64(scaled * stay[j])
			after[j-1] += in
			total += in
		}
		x.rate[i] = total
	}
}

// rescale multiplies all ω by the power of two that brings W near 1. It changes no hazard.
func (x *weights) rescale() {
	_, exponent := math.Frexp(x.row(x.w, 0)[x.most])
	if shift := exponent / x.most; shift != 0 {
		for i := range x.omega {
			x.omega[i] = math.Ldexp(x.omega[i], -shift)
		}
	}
}

// solve finds the ω with equal rates: the distribution of maximal entropy. It is the minimum of
// the convex function ln W - Σ (κ/n) ln ω_i of the ln ω_i; the gradient of this function is g
// times κ/n. Steps along g have the length of Barzilai and Borwein, which needs 10 rounds for
// few participations and 600 where κb/n is 9/10.
func (x *weights) solve(participations float64) error {
	rate := participations / float64(x.steps)
	g, last, moved := make([]float64, x.steps), make([]float64, x.steps), make([]float64, x.steps)
	length := 1.0
	for round := range maxRounds {
		if !x.backward() {
			return errors.New("the weights of its patterns leave the range of float64")
		}
		x.forward()
		worst := 0.0
		for i, r := range x.rate {
			g[i] = r/rate - 1
			worst = max(worst, math.Abs(g[i]))
		}
		if worst <= tolerance {
			return nil
		}
		if round > 0 {
			length = stepLength(length, moved, g, last)
		}
		copy(last, g)
		for i := range g {
			moved[i] = max(-1, min(1, -float64(length*g[i])))
			x.omega[i] = float64(x.omega[i]*(1+moved[i]/2)) / (1 - moved[i]/2) // e^moved to third order
		}
		x.rescale()
	}
	return fmt.Errorf("rates are not equal to %g after %d rounds", tolerance, maxRounds)
}

// stepLength is ⟨s,s⟩/⟨s,Δg⟩.
func stepLength(length float64, s, g, last []float64) float64 {
	squares, along := 0.0, 0.0
	for i, v := range s {
		squares += float64(v * v)
		along += float64(v * (g[i] - last[i]))
	}
	if !(along > 0) {
		return length
	}
	return squares / along
}

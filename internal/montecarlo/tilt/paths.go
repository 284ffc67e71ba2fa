package tilt

import (
	"math"

	"gonum.org/v1/gonum/floats"

	"minsep/internal/montecarlo"
	"minsep/internal/montecarlo/internal/kernel"
	"minsep/internal/montecarlo/internal/likelihood"
)

// ownerDraws is R: how many times the participations of an owner's k examples are drawn for one
// randomised f_k. It is fixed before the first sample.
func ownerDraws(k int) int { return max(leastDraws, ownerPaths/k) }

// maxDraws bounds the draws that a proposal read from outside may ask for.
const maxDraws = 10000

// drawsFor is R of a proposal, 0 where the ratio has a recursion.
func drawsFor(s montecarlo.Spec) int {
	if s.Exactness() != montecarlo.Drawn {
		return 0
	}
	return ownerDraws(s.MaxExamplesPerOwner)
}

// randomised is an unbiased draw f̂ of f_k given y, at most f^k (F4.8). It is for values that are
// linear in one of its two methods, with factors that depend on y alone. Such values are convex in
// f_k, so that their mean is at least the mean of the exact values. The hockey-stick value 1 -
// γ/f_k of a plain sample y ~ P is concave in f_k, and its mean would be too small. So the type
// does not give the ratio itself.
type randomised struct{ logRatio float64 }

// logExcess is ln (f̂ - γ)_+, γ = e^epsilon.
func (r randomised) logExcess(epsilon float64) float64 { return logExcess(r.logRatio, epsilon) }

// shortfall is (1 - γf̂)_+.
func (r randomised) shortfall(epsilon float64) float64 {
	return max(0, -math.Expm1(epsilon+r.logRatio))
}

// logExcess is ln (f - γ)_+ for ln f.
func logExcess(logF, epsilon float64) float64 {
	if logF <= epsilon {
		return math.Inf(-1)
	}
	return logF + math.Log(-math.Expm1(epsilon-logF))
}

// paths draws f̂ from participations of one example given y (F4.8). It is not safe for concurrent
// use.
type paths struct {
	examples    int // k
	draws       int // R
	gram        *likelihood.Gram
	one         *likelihood.Paths
	participate []int     // of all examples in one draw
	logs        []float64 // of the terms of one ratio
}

func newPaths(s montecarlo.Spec, c *likelihood.Columns, draws int) (*paths, error) {
	points, err := likelihood.NewPoints(s.Law, c, s.Factor())
	if err != nil {
		return nil, err
	}
	return &paths{
		examples: s.MaxExamplesPerOwner,
		draws:    draws,
		gram:     likelihood.NewGram(c, s.Factor()),
		one:      likelihood.NewPaths(points),
	}, nil
}

func (p *paths) fork() *paths {
	fork := *p
	fork.one, fork.participate, fork.logs = p.one.Fork(), nil, nil
	return &fork
}

// ratio draws f̂ for ln f of one example:
//
//	f̂ = f^k · 1/R Σ exp(-Σ_{a<c} ⟨Cx_a, Cx_c⟩/σ²)
//
// over R draws of k independent participations x_1 … x_k given y. u must be independent of y. It
// ends early with -Inf once ln f̂ is certain to be at most low, and with +Inf once it is certain to
// be at least high: every draw adds 0 to 1.
func (p *paths) ratio(logF float64, u *kernel.Uniforms, low, high float64) randomised {
	power, all := float64(p.examples)*logF, float64(p.draws)
	least := all * math.Exp(low-power) * (1 - certain)
	most := all * math.Exp(high-power) * (1 + certain)
	p.logs = p.logs[:0]
	sum := 0.0
	for draw := range p.draws {
		switch {
		case sum+float64(p.draws-draw) < least:
			return randomised{math.Inf(-1)}
		case sum > most:
			return randomised{math.Inf(1)}
		}
		log := -p.overlap(u)
		p.logs, sum = append(p.logs, log), sum+math.Exp(log)
	}
	return randomised{power + floats.LogSumExp(p.logs) - math.Log(all)} // terms may be below the numbers of float64
}

// certain is more than rounding can change in a sum of draws and in its logarithm.
const certain = 1e-9

// overlap draws k independent participations given y and returns Σ_{a<c} ⟨Cx_a, Cx_c⟩/σ².
func (p *paths) overlap(u *kernel.Uniforms) (sum float64) {
	p.participate = p.participate[:0]
	for range p.examples {
		from := len(p.participate)
		p.participate = p.one.Draw(p.participate, u)
		for _, i := range p.participate[from:] {
			for _, j := range p.participate[:from] { // of the examples before
				sum += p.gram.Between(max(i, j), max(i-j, j-i))
			}
		}
	}
	return sum
}
